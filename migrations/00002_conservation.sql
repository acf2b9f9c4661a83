-- +goose Up

-- How far each partition of the main topic was taken: records counts those with a fate below next_offset. It is written
-- after the fates and before the offset moves, so that every counted record has exactly one fate (hazard H18).
CREATE TABLE intake (
    topic_id     uuid NOT NULL,
    partition    integer NOT NULL,
    first_offset bigint NOT NULL,
    next_offset  bigint NOT NULL,
    records      bigint NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);

-- The fate of each record of the main topic that did not simply end as the charge of its order.
CREATE TABLE record_fates (
    topic_id   uuid NOT NULL,
    partition  integer NOT NULL,
    "offset"   bigint NOT NULL,
    order_id   uuid, -- null: the record could not be decoded
    fate       text NOT NULL CHECK (fate IN ('duplicate', 'waiting', 'dead', 'dropped', 'resolved')),
    reason     text,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, "offset")
);

-- Bodies of dead letters that fit no topic with their headers; the dead letter carries the id (hazard H14).
CREATE TABLE parked_bodies (
    id         uuid PRIMARY KEY,
    key        bytea,
    value      bytea,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
SELECT 'forward only';
