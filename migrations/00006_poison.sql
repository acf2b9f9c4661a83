-- +goose Up

-- Where assignments began, to notice a message that kills the process (hazard H15): an assignment that begins where the
-- last two began runs its records alone.
CREATE TABLE partition_starts (
    topic            text NOT NULL,
    partition        integer NOT NULL,
    committed_offset bigint NOT NULL,
    starts           integer NOT NULL DEFAULT 1, -- in a row at this offset
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

-- A record that is being handled alone stands here while it is, and stays when the process dies of it.
CREATE TABLE lonely_records (
    topic     text NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    tries     integer NOT NULL DEFAULT 1,
    PRIMARY KEY (topic, partition, "offset")
);

-- +goose Down
SELECT 'forward only';
