-- +goose Up

-- A replay that is taken up again after its process died goes on where it stood: what it had marked counts as its own, and
-- its scope is the one that it began with, so that a message that died again meanwhile is not sent a second time.
CREATE TABLE replay_runs (
    id         uuid NOT NULL,
    topic_id   uuid NOT NULL,
    ends       jsonb NOT NULL, -- by partition
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id, topic_id)
);

ALTER TABLE dead_letters ADD COLUMN replay_run uuid;
CREATE INDEX dead_letters_replay_run ON dead_letters (replay_run) WHERE replay_run IS NOT NULL;

-- An approver has decided that the message is charged whatever its age: the consumer believes this row, not a header.
ALTER TABLE dead_letters ADD COLUMN age_lifted boolean NOT NULL DEFAULT false;

-- The same call again, after its process died, is the same run.
ALTER TABLE admin_requests ADD COLUMN call_id uuid NOT NULL DEFAULT gen_random_uuid();

-- +goose Down
SELECT 'forward only';
