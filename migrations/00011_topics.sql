-- +goose Up

-- Every topic that this database has ever worked with is known by its id and by the group that reads it, so that none is left
-- behind with orders in it when settings change (hazard H28). An empty group: we only write there. Null: noted by an older
-- release, the group then follows from the name. read_to is, for each partition of a topic that is not read any more, the
-- offset up to which nothing waits: the brokers forget what a group has committed there.
ALTER TABLE known_topics ADD COLUMN consumer_group text;
ALTER TABLE known_topics ADD COLUMN read_to bigint[];

-- One installation, one database (hazard H30). Null until the first start of a release that knows these columns.
ALTER TABLE installation ADD COLUMN main_topic text;
ALTER TABLE installation ADD COLUMN cluster_id text;

-- +goose Down
SELECT 'forward only';
