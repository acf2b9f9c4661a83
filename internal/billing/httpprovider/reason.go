package httpprovider

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"example.com/billing/internal/billing"
	"example.com/billing/internal/failure"
)

// codeKeyReused is the provider's code for a key that was used with other content.
const codeKeyReused = "idempotency_key_reused"

// reasonOf gives every status that is not a success its reason, if the provider itself says it. The test has a row for each.
func reasonOf(status int, code string) failure.Reason {
	switch status {
	case 402:
		return failure.Declined
	case 400, 406, 413, 415:
		return failure.ProviderBadRequest
	case 401, 403, 407:
		return failure.ProviderUnauthorized
	case 404, 405, 410, 421:
		return failure.ProviderMisaddressed
	case 408, 425, 460, 499: // the last two are a load balancer's: it lost us, the request may have gone on
		return failure.ProviderTryAgain
	case 409, 423:
		return failure.ProviderInProgress
	case 429:
		return failure.ProviderRateLimited
	case 422:
		if code == codeKeyReused {
			return failure.KeyReused
		}
		return failure.ProviderRejected
	}
	switch status / 100 {
	case 3:
		return failure.ProviderMisaddressed
	case 4:
		return failure.ProviderRejected
	case 5:
		return failure.Provider5xx
	default: // 101, 202 "pending", 204, 600: no word of the contract
		return failure.ProviderBadAnswer
	}
}

// heedsRetryAfter tells the statuses that ask to come again later. What holds the line is probed at the line's own pace,
// and a final answer is not asked for again.
func heedsRetryAfter(status int) bool {
	switch status {
	case 408, 409, 423, 425, 429:
		return true
	}
	return status/100 == 5
}

// maxRetryAfter caps what a provider may ask for.
const maxRetryAfter = time.Hour

// retryAfter reads seconds or an HTTP date. What is negative or unreadable asks for nothing.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		seconds = max(0, min(seconds, int64(maxRetryAfter/time.Second)))
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}

// failed says why there was no answer.
func (t *trip) failed(parent context.Context, err error) *failure.Error {
	switch {
	case t.late.Load():
		return tooLate()
	case t.got.Load():
		return interrupted(parent, err, failure.ProviderReset, "no answer")
	case errors.Is(parent.Err(), context.Canceled):
		return failure.New(failure.ShuttingDown, "not sent: %w", parent.Err())
	case t.tlsBroke.Load():
		return failure.New(failure.ProviderTLS, "not sent: %w", brief{err})
	default:
		return failure.New(failure.ProviderUnreachable, "not sent: %w", brief{err})
	}
}

// interrupted is a failure after the send, so money may have moved whatever it was. Our own shutdown and the deadline are
// told apart from what broke by itself.
func interrupted(parent context.Context, err error, otherwise failure.Reason, doing string) *failure.Error {
	reason := otherwise
	switch {
	case errors.Is(parent.Err(), context.Canceled):
		reason = failure.ShuttingDown
	case errors.Is(err, context.DeadlineExceeded):
		reason = failure.ProviderTimeout
	}
	f := failure.New(reason, "%s: %w", doing, brief{err})
	f.Unknown = true
	return f
}

// passing reports whether a TLS handshake ended for the network's sake, which says nothing about certificates.
func passing(err error) bool {
	_, system := errors.AsType[*os.SyscallError](err)
	timeout, ok := errors.AsType[net.Error](err)
	return system || ok && timeout.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled)
}

// brief is an error whose text is safe to keep: the transport quotes what the other side sent when it cannot read it, and
// a certificate can hold any text.
type brief struct{ error }

func (b brief) Error() string {
	_, network := errors.AsType[net.Error](b.error)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](b.error)
	_, notTLS := errors.AsType[tls.RecordHeaderError](b.error)
	if network || certificate || notTLS || errors.Is(b.error, io.EOF) || errors.Is(b.error, io.ErrUnexpectedEOF) ||
		errors.Is(b.error, billing.ErrTooLarge) || errors.Is(b.error, context.Canceled) {
		return printable(b.error.Error(), 200)
	}
	return "the exchange broke off"
}

func (b brief) Unwrap() error { return b.error }
