package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
)

// call is one unsafe request.
type call struct {
	actor string
	key   string // empty: the caller does not mind if it is done twice
	hash  [sha256.Size]byte
}

// readCall reads the body, which the handler reads again, for the hash of the whole request.
func readCall(c echo.Context, by Token) (call, error) {
	key := c.Request().Header.Get("Idempotency-Key")
	if len(key) > 255 || strings.Trim(key, visible+",") != "" {
		return call{}, refuse(http.StatusBadRequest, "Idempotency-Key must be 1 to 255 visible ASCII characters")
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
	return call{actor: by.Name, key: key, hash: sha256.Sum256(append([]byte(head), body...))}, nil
}

// answers keeps the answers to unsafe calls for a day.
type answers struct {
	pool    *pgxpool.Pool
	longest time.Duration // that a call runs; after it the same call may begin again
}

// begin takes the key, or returns the answer that was given under it.
func (a answers) begin(ctx context.Context, c call) ([]byte, error) {
	if c.key == "" {
		return nil, nil
	}
	if _, err := a.pool.Exec(ctx, `DELETE FROM admin_requests WHERE created_at < now() - interval '1 day'`); err != nil {
		return nil, fmt.Errorf("remove old answers: %w", err)
	}
	tag, err := a.pool.Exec(ctx, `
		INSERT INTO admin_requests AS r (actor, key, request_hash, running_until) VALUES ($1, $2, $3, now() + $4)
		ON CONFLICT (actor, key) DO UPDATE SET running_until = excluded.running_until
		WHERE r.request_hash = excluded.request_hash AND r.running_until < now()`, c.actor, c.key, c.hash[:], a.longest)
	if err != nil {
		return nil, fmt.Errorf("take the idempotency key: %w", err)
	}
	if tag.RowsAffected() == 1 {
		return nil, nil
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

// forget frees the key of a call that failed, which may be tried again. It returns the failure.
func (a answers) forget(ctx context.Context, c call, failed error) error {
	if c.key == "" {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := a.pool.Exec(ctx, `DELETE FROM admin_requests WHERE actor = $1 AND key = $2 AND status IS NULL`, c.actor, c.key)
	return errors.Join(failed, err)
}
