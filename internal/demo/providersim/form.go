package providersim

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
)

// content is what is asked for. Two requests with one key must have the same.
type content struct {
	reference, customer string
	amount, currency    string
}

// maxBody is what a request may have; a good one has some 170 bytes.
const maxBody = 64 << 10

// refusal is a request that breaks the contract.
type refusal struct {
	status int
	code   string
}

// read takes a request in exactly the contract's form: a tolerant simulator would hide what a strict provider refuses.
func read(r *http.Request) (key string, c content, no *refusal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", c, &refusal{http.StatusUnsupportedMediaType, "unsupported_media_type"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return "", c, &refusal{http.StatusBadRequest, "unreadable_body"}
	}
	if len(body) > maxBody {
		return "", c, &refusal{http.StatusRequestEntityTooLarge, "too_large"}
	}
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) != 1 || !validKey(keys[0]) {
		return "", c, &refusal{http.StatusBadRequest, "invalid_idempotency_key"}
	}
	if c, err = parse(body); err != nil {
		return "", c, &refusal{http.StatusBadRequest, "invalid_request"}
	}
	return keys[0], c, nil
}

func validKey(key string) bool {
	notVisible := func(r rune) bool { return r <= ' ' || r > '~' }
	return len(key) >= 1 && len(key) <= 255 && !strings.ContainsFunc(key, notVisible)
}

// parse reads the four members, each a string, by their exact names, and nothing else.
func parse(body []byte) (content, error) {
	var members map[string]*string // a struct would take "Amount" for "amount", and null for ""
	if err := json.Unmarshal(body, &members); err != nil {
		return content{}, err
	}
	text := func(name string) string {
		if s := members[name]; s != nil {
			return *s
		}
		return ""
	}
	c := content{text("reference"), text("customer_id"), text("amount"), text("currency")}
	money, err := billing.ParseMoney(c.amount, c.currency)
	switch {
	case err != nil:
		return content{}, err
	case len(members) != 4, money.Decimal() != c.amount, !validUUID(c.reference), !validUUID(c.customer):
		return content{}, errors.New("not the contract's form")
	}
	return c, nil
}

func validUUID(s string) bool {
	u, err := uuid.Parse(s)
	return err == nil && u.String() == s
}
