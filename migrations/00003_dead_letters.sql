-- +goose Up

-- The working list of dead letters. The topic stays the durable log: key, value and headers are not copied, they are read
-- from there when a person asks. The list knows what a person decided about each record.
CREATE TABLE dead_letters (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order in which they were listed
    topic            text NOT NULL,
    topic_id         uuid NOT NULL, -- a topic that is created again has another one (hazard H11)
    partition        integer NOT NULL,
    "offset"         bigint NOT NULL,
    state            text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replaying', 'replayed', 'dropped', 'resolved')),
    class            text NOT NULL,
    reason           text NOT NULL,
    error            text NOT NULL,
    failures         integer NOT NULL,
    order_id         uuid,          -- this and the amount: null when the value could not be read
    amount_minor     bigint,
    currency         text,
    -- The record of the main topic that ended here; null when the headers do not tell.
    origin_topic     text,
    origin_topic_id  uuid,          -- null for a topic other than the main one
    origin_partition integer,
    origin_offset    bigint,
    origin_at        timestamptz,
    first_failure_at timestamptz,
    dead_at          timestamptz NOT NULL,
    replay_count     integer NOT NULL DEFAULT 0, -- replays before this death
    -- The replay that ended in this letter; zero when it was never replayed before. Part of the second identity (H17).
    from_replay_id   uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- The replay of this letter. A record that carries it may charge only while it stands here (H8), and a replay that
    -- is taken up again uses the same one.
    replay_id        uuid,
    lease_until      timestamptz,   -- past it a replay that stopped half-way may be taken up again
    replay_target    text,
    finished_at      timestamptz,
    -- A record that was published twice is listed, but it is not counted and not replayable (H17).
    duplicate_of     bigint REFERENCES dead_letters,
    listed_at        timestamptz NOT NULL DEFAULT now(),
    UNIQUE (topic_id, partition, "offset"),
    CHECK ((amount_minor IS NULL) = (currency IS NULL)),
    CHECK ((origin_topic IS NULL) = (origin_offset IS NULL) AND (origin_topic IS NULL) = (origin_partition IS NULL)),
    CHECK ((state = 'replaying') = (lease_until IS NOT NULL)),
    CHECK (state NOT IN ('replaying', 'replayed') OR (replay_id IS NOT NULL AND replay_target IS NOT NULL)),
    CHECK ((state IN ('replayed', 'dropped', 'resolved')) = (finished_at IS NOT NULL))
);

CREATE UNIQUE INDEX dead_letters_once ON dead_letters (origin_topic_id, origin_partition, origin_offset, from_replay_id)
    WHERE duplicate_of IS NULL AND origin_topic_id IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_replay_id ON dead_letters (replay_id) WHERE replay_id IS NOT NULL;
-- What is unresolved is small and asked for often; the whole history is paged by id.
CREATE INDEX dead_letters_unresolved ON dead_letters (topic, id) WHERE state IN ('open', 'replaying');
CREATE INDEX dead_letters_topic ON dead_letters (topic, id);
CREATE INDEX dead_letters_reason ON dead_letters (topic, reason, id);
CREATE INDEX dead_letters_order ON dead_letters (order_id, id) WHERE order_id IS NOT NULL;

-- Up to where each partition is listed. Written in the transaction that lists the rows, so that a record can be neither
-- skipped nor taken for one that does not exist (hazard H13). An empty partition has a row, too.
CREATE TABLE dead_letter_positions (
    topic_id    uuid NOT NULL,
    partition   integer NOT NULL,
    topic       text NOT NULL,
    next_offset bigint NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition)
);

-- Who did what, and why. Append only: the triggers hold also against our own mistakes.
CREATE TABLE audit_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT now(),
    actor      text NOT NULL,
    role       text NOT NULL,
    action     text NOT NULL,
    reason     text NOT NULL,
    target     jsonb NOT NULL,
    request_id text NOT NULL,
    outcome    text NOT NULL
);
CREATE INDEX audit_log_actor ON audit_log (actor, id);

-- +goose StatementBegin
CREATE FUNCTION audit_log_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows are never changed or removed' USING ERRCODE = 'BL006';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_guard BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_guard();
CREATE TRIGGER audit_log_guard_all BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_guard();

-- Answers to unsafe calls that came with an Idempotency-Key: the same call again gets the same answer.
CREATE TABLE admin_requests (
    actor         text NOT NULL,
    key           text NOT NULL,
    request_hash  bytea NOT NULL,
    running_until timestamptz,        -- null: answered
    status        integer,
    response      bytea,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (actor, key),
    CHECK ((running_until IS NULL) = (status IS NOT NULL AND response IS NOT NULL))
);
CREATE INDEX admin_requests_created_at ON admin_requests (created_at);

-- +goose Down
SELECT 'forward only';
