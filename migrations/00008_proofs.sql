-- +goose Up

-- A record of the main topic that stands for another one, a replay, is received like any other, but it is no order that
-- arrived. This fate is written only when the working list proves it, so no header can change what is counted (hazard H18).
ALTER TABLE record_fates DROP CONSTRAINT record_fates_fate_check;
ALTER TABLE record_fates ADD CONSTRAINT record_fates_fate_check
    CHECK (fate IN ('duplicate', 'waiting', 'dead', 'dropped', 'resolved', 'replay'));

-- Of key and value. Two dead letters of one origin are one record published twice only if they are the same: another record
-- with forged headers must not hide a letter (hazard H17). Null: listed before this column was there.
ALTER TABLE dead_letters ADD COLUMN body_hash bytea;
DROP INDEX dead_letters_once;
CREATE UNIQUE INDEX dead_letters_once ON dead_letters (origin_topic_id, origin_partition, origin_offset, from_replay_id, body_hash)
    WHERE duplicate_of IS NULL AND origin_topic_id IS NOT NULL;

-- +goose Down
SELECT 'forward only';
