package billing

import (
	"strconv"
	"strings"

	"example.com/billing/internal/failure"
)

// maxDigits bounds an amount in minor units: 18 digits always fit an int64.
const maxDigits = 18

// Money is an exact amount: minor units (cents, yen, fils) of an ISO 4217 currency.
type Money struct {
	Minor    int64
	Currency string
}

// ParseMoney reads a decimal exactly: digits, optionally a point and more digits. There is no sign, no exponent, no
// space and no rounding: more fraction digits than the currency has are an error. Errors are *failure.Error; they name the
// rule and never the value, which may be anything that stood in the wrong field.
func ParseMoney(text, currency string) (Money, error) {
	exponent, ok := exponentOf(currency)
	if !ok {
		return Money{}, failure.New(failure.UnknownCurrency, "currency is not an ISO 4217 code such as \"EUR\"")
	}
	if strings.HasPrefix(text, "-") && decimal(text[1:]) {
		return Money{}, failure.New(failure.AmountNotPositive, "total_amount is negative, want more than 0")
	}
	if !decimal(text) {
		return Money{}, failure.New(failure.InvalidAmount, "total_amount is not a plain decimal such as \"149.90\"")
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > exponent {
		return Money{}, failure.New(failure.AmountTooPrecise, "total_amount has more than the %d fraction digits of its currency", exponent)
	}
	digits := strings.TrimLeft(whole+fraction+strings.Repeat("0", exponent-len(fraction)), "0")
	if len(digits) > maxDigits {
		return Money{}, failure.New(failure.AmountTooLarge, "total_amount has more than %d digits", maxDigits)
	}
	if digits == "" {
		return Money{}, failure.New(failure.AmountNotPositive, "total_amount is 0, want more than 0")
	}
	minor, err := strconv.ParseInt(digits, 10, 64)
	return Money{Minor: minor, Currency: currency}, err
}

// decimal reports whether the text is (0|[1-9][0-9]*)(\.[0-9]+)?
func decimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	leadingZero := len(whole) > 1 && whole[0] == '0'
	return allDigits(whole) && !leadingZero && (!point || allDigits(fraction))
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Decimal writes the amount with exactly the currency's fraction digits: "149.90", "500", "18.600".
func (m Money) Decimal() string {
	exponent, _ := exponentOf(m.Currency)
	s := strconv.FormatInt(m.Minor, 10)
	if exponent == 0 {
		return s
	}
	if short := exponent + 1 - len(s); short > 0 {
		s = strings.Repeat("0", short) + s
	}
	return s[:len(s)-exponent] + "." + s[len(s)-exponent:]
}

func (m Money) String() string { return m.Decimal() + " " + m.Currency }
