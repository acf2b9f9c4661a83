package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
)

// call is one unsafe request.
type call struct {
	actor string
	key   string // empty: the caller does not mind if it is done twice
	hash  [sha256.Size]byte
	id    uuid.UUID // the same when a call is taken up again whose process died
}

const (
	idempotencyKey = "Idempotency-Key"
	callKey        = "call"
)

// callID is the id of the request that is being answered.
func callID(c echo.Context) uuid.UUID {
	id, _ := c.Get(callKey).(uuid.UUID) // serveOnce set it
	return id
}

// readCall reads the body, which the handler reads again, for the hash of the whole request.
func readCall(c echo.Context, by Token) (call, error) {
	given := call{actor: by.Name, id: uuid.New()}
	if keys := c.Request().Header.Values(idempotencyKey); len(keys) > 0 { // guard has refused a second one
		if given.key = keys[0]; given.key == "" || len(given.key) > 255 || strings.Trim(given.key, visible+",") != "" {
			return call{}, refuse(http.StatusBadRequest, idempotencyKey+" must be 1 to 255 visible ASCII characters; leave it out to do without")
		}
	}
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return call{}, err
		}
		return call{}, refuse(http.StatusBadRequest, "the body did not arrive whole")
	}
	c.Request().Body = io.NopCloser(bytes.NewReader(body))
	head := c.Request().Method + " " + c.Request().URL.RequestURI() + "\n"
	given.hash = sha256.Sum256(append([]byte(head), body...))
	return given, nil
}

// answers keeps the answers to unsafe calls for a day.
type answers struct {
	pool  *pgxpool.Pool
	lease time.Duration // a call whose process died may begin again after it
	log   *slog.Logger
}

// begin takes the key, or returns the answer that was given under it. A call that is taken up again gets its id back.
func (a answers) begin(ctx context.Context, c *call) ([]byte, error) {
	if c.key == "" {
		return nil, nil
	}
	if _, err := a.pool.Exec(ctx, `DELETE FROM admin_requests WHERE created_at < now() - interval '1 day'`); err != nil {
		return nil, fmt.Errorf("remove old answers: %w", err)
	}
	err := a.pool.QueryRow(ctx, `
		INSERT INTO admin_requests AS r (actor, key, request_hash, call_id, running_until) VALUES ($1, $2, $3, $4, now() + $5)
		ON CONFLICT (actor, key) DO UPDATE SET running_until = excluded.running_until
		WHERE r.request_hash = excluded.request_hash AND r.running_until < now()
		RETURNING call_id`, c.actor, c.key, c.hash[:], c.id, a.lease).Scan(&c.id)
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("take the idempotency key: %w", err)
	}
	var hash, response []byte
	err = a.pool.QueryRow(ctx, `SELECT request_hash, response FROM admin_requests WHERE actor = $1 AND key = $2`, c.actor, c.key).Scan(&hash, &response)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of an idempotency key: %w", err)
	case !bytes.Equal(hash, c.hash[:]):
		return nil, refuse(http.StatusUnprocessableEntity, "this Idempotency-Key was used for another request; use a new one")
	case response == nil:
		return nil, refuse(http.StatusConflict, "a request with this Idempotency-Key is being worked on; ask again in some seconds")
	}
	return response, nil
}

// renew keeps the key while the call is worked on, until the returned function is called.
func (a answers) renew(ctx context.Context, c call) (stop func()) {
	if c.key == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(a.lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := a.free(ctx, c, a.lease); err != nil && ctx.Err() == nil {
				a.log.Warn("idempotency key not renewed: the same call may begin beside this one", "actor", c.actor, "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// free lets the same call begin after so long.
func (a answers) free(ctx context.Context, c call, after time.Duration) error {
	_, err := a.pool.Exec(ctx, `UPDATE admin_requests SET running_until = now() + $3 WHERE actor = $1 AND key = $2 AND status IS NULL`, c.actor, c.key, after)
	return err
}

// keep stores the answer.
func (a answers) keep(ctx context.Context, c call, response []byte) error {
	if c.key == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := a.pool.Exec(ctx, `UPDATE admin_requests SET running_until = NULL, status = 200, response = $3 WHERE actor = $1 AND key = $2`, c.actor, c.key, response)
	return err
}

// failed lets the same call be made again. One that was refused did nothing, and its key is free for another request; one
// that stopped half-way keeps key and id, so that the same call goes on where it stood. It returns the cause.
func (a answers) failed(ctx context.Context, c call, cause error) error {
	if c.key == "" {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if asProblem(cause).Status >= http.StatusInternalServerError {
		return errors.Join(cause, a.free(ctx, c, 0))
	}
	_, err := a.pool.Exec(ctx, `DELETE FROM admin_requests WHERE actor = $1 AND key = $2 AND status IS NULL`, c.actor, c.key)
	return errors.Join(cause, err)
}
