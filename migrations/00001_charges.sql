-- +goose Up

-- What must never change under a running database: the idempotency keys of waiting orders follow from it (hazards H6, H7).
CREATE TABLE installation (
    only_row         boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    environment      text NOT NULL,
    provider_account text NOT NULL,
    consumer_group   text NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now()
);

-- One row per order, for ever. The order id is the key: the same order cannot stand here twice.
-- No index on a column that changes, and half-full pages: updates then stay on their page (HOT).
CREATE TABLE charges (
    order_id           uuid PRIMARY KEY,
    generation         smallint NOT NULL DEFAULT 1 CHECK (generation BETWEEN 1 AND 100),
    event_id           uuid NOT NULL,
    customer_id        uuid NOT NULL,
    amount_minor       bigint NOT NULL CHECK (amount_minor > 0),
    currency           text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    fingerprint        bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    idempotency_key    uuid NOT NULL,
    provider_account   text NOT NULL,
    state              text NOT NULL CHECK (state IN ('in_flight', 'retry_wait', 'unknown', 'succeeded', 'declined', 'rejected', 'review')),
    reason             text,
    outcome_unknown    boolean NOT NULL DEFAULT false, -- an attempt of this generation may have moved money (sticky, H5)
    attempts           integer NOT NULL DEFAULT 1,
    event_version      integer NOT NULL DEFAULT 0,     -- of the last result event
    claim_id           uuid,                           -- the one claim that works on it (H9)
    lease_until        timestamptz,
    -- The claim itself says that something may have been sent; only its own settlement takes that back (H2).
    first_sent_at      timestamptz,
    last_sent_at       timestamptz,
    previous_sent_at   timestamptz,                    -- last_sent_at before the running claim
    provider_charge_id text,
    -- The record of the main topic that this row was last worked on for (H18).
    origin_topic_id    uuid NOT NULL,
    origin_partition   integer NOT NULL,
    origin_offset      bigint NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    finalized_at       timestamptz,
    CHECK ((state = 'in_flight') = (claim_id IS NOT NULL AND lease_until IS NOT NULL)),
    CHECK (state <> 'succeeded' OR provider_charge_id IS NOT NULL),
    CHECK ((state IN ('succeeded', 'declined', 'rejected')) = (finalized_at IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.01,
        autovacuum_vacuum_insert_scale_factor = 0.05);

CREATE INDEX charges_created_at ON charges USING brin (created_at);

-- The last line of defence: whatever the code above does, a charged order stays charged and keeps its amount.
-- +goose StatementBegin
CREATE FUNCTION charges_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.order_id <> OLD.order_id OR NEW.customer_id <> OLD.customer_id OR NEW.amount_minor <> OLD.amount_minor
       OR NEW.currency <> OLD.currency OR NEW.fingerprint <> OLD.fingerprint THEN
        RAISE EXCEPTION 'order %: what is charged never changes', OLD.order_id USING ERRCODE = 'BL001';
    END IF;
    IF NEW.generation < OLD.generation OR NEW.attempts < OLD.attempts OR NEW.event_version < OLD.event_version THEN
        RAISE EXCEPTION 'order %: generation, attempts and version never fall', OLD.order_id USING ERRCODE = 'BL002';
    END IF;
    IF NEW.generation = OLD.generation AND NEW.idempotency_key <> OLD.idempotency_key THEN
        RAISE EXCEPTION 'order %: a generation keeps its idempotency key', OLD.order_id USING ERRCODE = 'BL003';
    END IF;
    IF OLD.state = 'succeeded' AND (NEW.state <> 'succeeded' OR NEW.provider_charge_id <> OLD.provider_charge_id) THEN
        RAISE EXCEPTION 'order %: a charged order stays charged', OLD.order_id USING ERRCODE = 'BL004';
    END IF;
    IF OLD.state IN ('declined', 'rejected') AND NEW.state NOT IN (OLD.state, 'succeeded') AND NEW.generation = OLD.generation THEN
        RAISE EXCEPTION 'order %: a refused order is charged again only in a new generation', OLD.order_id USING ERRCODE = 'BL005';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER charges_guard BEFORE UPDATE ON charges FOR EACH ROW EXECUTE FUNCTION charges_guard();

-- What every claim did. Append only.
CREATE TABLE charge_attempts (
    order_id            uuid NOT NULL,
    generation          smallint NOT NULL,
    attempt             integer NOT NULL,
    claim_id            uuid NOT NULL,
    kind                text NOT NULL CHECK (kind IN ('charge', 'lookup', 'late', 'system')),
    started_at          timestamptz NOT NULL,
    finished_at         timestamptz NOT NULL,
    reason              text,            -- null: success
    http_status         smallint,
    provider_request_id text,
    provider_charge_id  text,
    provider_code       text,
    replayed            boolean NOT NULL DEFAULT false,
    detail              text
);
CREATE INDEX charge_attempts_order ON charge_attempts (order_id);

-- What must not happen and did: a second charge of one order, a success that the table above refused. Each one pages.
CREATE TABLE charge_anomalies (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id           uuid NOT NULL,
    kind               text NOT NULL,
    provider_charge_id text,
    detail             text,
    created_at         timestamptz NOT NULL DEFAULT now(),
    resolved_at        timestamptz,
    resolved_by        text
);

-- Result events on their way out. A queue without a cursor: rows go when the broker has acknowledged them.
CREATE TABLE outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    uuid NOT NULL,
    event_type  text NOT NULL,
    order_id    uuid NOT NULL,
    payload     bytea NOT NULL,
    traceparent text,
    tries       integer NOT NULL DEFAULT 0,
    next_try_at timestamptz NOT NULL DEFAULT '-infinity',
    created_at  timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- Events that failed, few as a rule: later events of the same order wait behind them.
CREATE INDEX outbox_failed ON outbox (order_id, id) WHERE tries > 0;

-- Who does what only one instance may do (the relay, the dead letters' reader).
CREATE TABLE leases (
    name       text PRIMARY KEY,
    owner      uuid NOT NULL,
    expires_at timestamptz NOT NULL
);

-- +goose Down
SELECT 'forward only';
