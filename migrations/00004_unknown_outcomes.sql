-- +goose Up

-- Orders whose outcome is unknown or in review: few, and what the reconciler and the alert ask for, so that nobody scans
-- charges for them. The row of the order decides; this one only says where to look, and it goes once the outcome is known.
CREATE TABLE unknown_outcomes (
    order_id uuid PRIMARY KEY,
    since    timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

INSERT INTO unknown_outcomes (order_id, since) SELECT order_id, updated_at FROM charges WHERE state IN ('unknown', 'review');

-- What was charged in a span of time. Attempts are only ever added, nearly in the order of their ends: the index is a few
-- pages, and adding a row hardly touches it.
CREATE INDEX charge_attempts_finished_at ON charge_attempts USING brin (finished_at) WITH (autosummarize = on);

-- Comparisons with the provider, so that one that was interrupted can be taken up where it stood.
CREATE TABLE reconcile_runs (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    range_from  timestamptz NOT NULL,
    range_to    timestamptz NOT NULL,
    there_until timestamptz NOT NULL, -- the provider's charges up to this one are compared
    here_until  timestamptz NOT NULL, -- and our own before this
    report      jsonb NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CHECK (range_from < range_to)
);

-- +goose Down
SELECT 'forward only';
