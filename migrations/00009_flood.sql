-- +goose Up

-- A flood of dead letters (hazard H25), while an instance withholds them: an instance that starts meanwhile withholds them
-- from the start, so that no restart lets the first ones of them die.
CREATE TABLE dead_letter_flood (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    since    timestamptz NOT NULL DEFAULT now(),
    seen_at  timestamptz NOT NULL DEFAULT now()
);

-- What a person has let go: so many withheld messages may die for the reason. Each instance takes a share for those that
-- wait there. It ends with the flood.
CREATE TABLE accepted_dead_letters (
    reason_code text PRIMARY KEY,
    remaining   bigint NOT NULL CHECK (remaining >= 0)
);

-- +goose Down
SELECT 'forward only';
