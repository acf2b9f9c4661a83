-- +goose Up

-- The incarnation of each topic that this database has worked with. A topic that is created again starts at offset 0, and
-- the groups' offsets mean nothing there: the start is refused until a person has accepted it (hazard H11).
CREATE TABLE known_topics (
    name        text PRIMARY KEY,
    topic_id    uuid NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
SELECT 'forward only';
