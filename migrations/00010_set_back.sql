-- +goose Up

-- From when on intake is kept for every partition of the topic. Null: not yet, releases before this one kept it for the main
-- topic alone. Afterwards a partition without a row was never taken, whatever its group has committed: then this database is
-- an older one than those offsets (hazard H27).
ALTER TABLE known_topics ADD COLUMN taken_since timestamptz;

-- How far the message had come that the fate is of. A fate of an earlier step, which a process writes that was cut off or
-- frozen, does not replace a newer one. 0: written by a release that did not know of it, anything replaces it.
ALTER TABLE record_fates ADD COLUMN step bigint NOT NULL DEFAULT 0;

-- +goose Down
SELECT 'forward only';
