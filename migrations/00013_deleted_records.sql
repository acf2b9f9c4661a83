-- +goose Up

-- Records that retention deleted before they were handled, until a person has accepted that. No row goes: it is what to ask
-- the producer for.
CREATE TABLE deleted_records (
    topic_id    uuid NOT NULL,
    partition   integer NOT NULL,
    from_offset bigint NOT NULL,
    to_offset   bigint NOT NULL, -- the first that was still there
    topic       text NOT NULL,
    noticed_at  timestamptz NOT NULL DEFAULT now(),
    accepted_at timestamptz,
    PRIMARY KEY (topic_id, partition, from_offset),
    CHECK (from_offset < to_offset)
);

-- +goose Down
SELECT 'forward only';
