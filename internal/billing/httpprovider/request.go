package httpprovider

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"example.com/billing/internal/billing"
)

// chargeRequest is made by hand, and so without GetBody: given one, http.Transport sends the request again by itself when
// a reused connection dies, because it carries an Idempotency-Key. One attempt is one request; sending again is decided
// where it is counted.
func (c *Client) chargeRequest(r billing.ChargeRequest) *http.Request {
	body := chargeBody(r)
	header := maps.Clone(c.header)
	header["Content-Type"] = []string{"application/json"}
	header["Idempotency-Key"] = []string{r.Key.String()}
	if validTraceparent(r.Traceparent) {
		header["Traceparent"] = []string{r.Traceparent}
	}
	return &http.Request{
		Method: http.MethodPost, URL: c.charges, Header: header,
		// In memory, so that head and body leave in one write; see trip.aboutToWrite.
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// chargeBody is written without an encoder: UUIDs, digits and a currency code need no escape.
func chargeBody(r billing.ChargeRequest) []byte {
	b := make([]byte, 0, 192)
	b = append(b, `{"reference":"`...)
	b = append(b, r.Reference.String()...)
	b = append(b, `","customer_id":"`...)
	b = append(b, r.CustomerID.String()...)
	b = append(b, `","amount":"`...)
	b = append(b, r.Amount.Decimal()...)
	b = append(b, `","currency":"`...)
	b = append(b, r.Amount.Currency...)
	return append(b, `"}`...)
}

func (c *Client) findRequest(reference uuid.UUID) *http.Request {
	u := *c.charges
	u.RawQuery = "reference=" + reference.String()
	return &http.Request{Method: http.MethodGet, URL: &u, Header: c.header}
}

// validTraceparent checks the form of W3C Trace Context. The value comes from a message header, and anything else is left
// out: a broken one would make the whole request, and so the order, unsendable.
func validTraceparent(s string) bool {
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:]
	return lowerHex(version+trace+span+flags) && version != "ff" && strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
}

func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
