-- +goose Up

-- The operator's stop switch (hazard H20): on while it has its one row. Every claim checks it in its own statement, so no
-- instance claims after it was turned on, whatever that instance knows.
CREATE TABLE operator_pause (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    actor    text NOT NULL,
    reason   text NOT NULL,
    since    timestamptz NOT NULL DEFAULT now()
);

-- +goose StatementBegin
CREATE FUNCTION unless_paused() RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM operator_pause) THEN
        RAISE EXCEPTION 'an operator has paused the consumption' USING ERRCODE = 'BL007';
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- What the instances know of each other: why each one is held, and when it last got an answer of the provider. All times
-- are this database's. A row that is not renewed is of an instance that is gone.
CREATE TABLE instances (
    id          uuid PRIMARY KEY,
    held        text,        -- null: its line runs
    held_since  timestamptz,
    answered_at timestamptz, -- when the latest attempt began that the provider took a decision in
    updated_at  timestamptz NOT NULL DEFAULT now(),
    CHECK ((held IS NULL) = (held_since IS NULL))
);

-- +goose Down
SELECT 'forward only';
