package billing

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/failure"
)

func TestParseMoneyIsExact(t *testing.T) {
	for _, c := range []struct {
		text, currency string
		minor          int64
		decimal        string
	}{
		{"149.90", "EUR", 14990, "149.90"},
		{"149.9", "EUR", 14990, "149.90"},
		{"149", "EUR", 14900, "149.00"},
		{"0.01", "EUR", 1, "0.01"},
		{"0.1", "EUR", 10, "0.10"},
		{"148062.76", "EUR", 14806276, "148062.76"}, // times 100 as a float64: 14806275.999999998
		{"9007199254740993.01", "EUR", 900719925474099301, "9007199254740993.01"},
		{"9999999999999999.99", "EUR", 999999999999999999, "9999999999999999.99"},
		{"500", "JPY", 500, "500"},
		{"1", "JPY", 1, "1"},
		{"999999999999999999", "JPY", 999999999999999999, "999999999999999999"},
		{"18.600", "KWD", 18600, "18.600"},
		{"18.6", "KWD", 18600, "18.600"},
		{"0.001", "KWD", 1, "0.001"},
	} {
		t.Run(c.text+" "+c.currency, func(t *testing.T) {
			m, err := ParseMoney(c.text, c.currency)
			require.NoError(t, err)
			require.Equal(t, Money{Minor: c.minor, Currency: c.currency}, m)
			require.Equal(t, c.decimal, m.Decimal())
			require.Equal(t, c.decimal+" "+c.currency, m.String())
		})
	}
}

func TestParseMoneyRefuses(t *testing.T) {
	digits := strings.Repeat("7", 40)
	for _, c := range []struct {
		currency string
		want     failure.Reason
		texts    []string
	}{
		{"EUR", failure.AmountNotPositive, []string{"0", "0.0", "0.00", "-0", "-5", "-5.00", "-0.01", "-" + digits}},
		{"EUR", failure.InvalidAmount, []string{"", " ", "+10", "+0", ".5", "5.", ".", "-", "-.5", "--5", "1e3", "1E3", "-1e3", "1e20000000", "NaN", "Infinity",
			" 1", "1 ", "1\n", "1,50", "1.000,00", "1'000", "1_000", "1.2.3", "007", "00", "00.5", "0x10", "١", "１", "1\x00", "€5", "\xff"}},
		{"EUR", failure.AmountTooPrecise, []string{"0.999", "0.001", "1.000", "0.000", "1." + digits}},
		{"JPY", failure.AmountTooPrecise, []string{"500.5", "500.0"}},
		{"KWD", failure.AmountTooPrecise, []string{"18.6001", "18.6000"}},
		{"EUR", failure.AmountTooLarge, []string{digits, "10000000000000000", "10000000000000000.00", "92233720368547758.07"}},
		{"JPY", failure.AmountTooLarge, []string{"1000000000000000000", "9223372036854775808", "18446744073709551617"}},
		{"KWD", failure.AmountTooLarge, []string{"1000000000000000"}},
		{"", failure.UnknownCurrency, []string{"1"}},
		{"eur", failure.UnknownCurrency, []string{"1"}},
		{"EURO", failure.UnknownCurrency, []string{"1"}},
		{"XXX", failure.UnknownCurrency, []string{"1"}},
	} {
		for _, text := range c.texts {
			t.Run(c.currency+" "+text, func(t *testing.T) {
				m, err := ParseMoney(text, c.currency)
				require.Zero(t, m)
				var f *failure.Error
				require.ErrorAs(t, err, &f)
				require.Equal(t, c.want, f.Reason, f.Detail)
				require.Less(t, len(f.Detail), 300)
			})
		}
	}
}

func TestParseMoneyBoundsWhatItShows(t *testing.T) {
	for _, text := range []string{strings.Repeat("9", 900_000), strings.Repeat("x", 900_000), "0." + strings.Repeat("0", 900_000)} {
		_, err := ParseMoney(text, "EUR")
		require.Error(t, err)
		require.Less(t, len(err.Error()), 200)
	}
	_, err := ParseMoney("1", strings.Repeat("€", 100_000))
	require.Error(t, err)
	require.Less(t, len(err.Error()), 200)
}

// The order may have been claimed first when another currency was the default (hazard H6).
func TestOrderInAnotherCurrency(t *testing.T) {
	o := Order{Amount: Money{50000, "EUR"}, AmountText: "500.00"}
	in, err := o.In("KWD")
	require.NoError(t, err)
	require.Equal(t, Money{500000, "KWD"}, in.Amount)
	require.Equal(t, Money{50000, "EUR"}, o.Amount)

	_, err = o.In("JPY")
	require.Equal(t, failure.AmountTooPrecise, failure.Of(err).Reason)
}

// FuzzMoneyRoundTrip: every amount that can be stored is read back as itself, and big.Rat agrees on its value.
func FuzzMoneyRoundTrip(f *testing.F) {
	for _, minor := range []int64{1, 9, 10, 99, 100, 14806276, 900719925474099301, 999999999999999999, 1000000000000000000, math.MaxInt64, 0, -1, math.MinInt64} {
		for digits := range uint8(4) {
			f.Add(minor, digits)
		}
	}
	currencies := []string{"JPY", "EUR", "KWD"}
	f.Fuzz(func(t *testing.T, minor int64, pick uint8) {
		m := Money{Minor: minor, Currency: currencies[int(pick)%len(currencies)]}
		got, err := ParseMoney(m.Decimal(), m.Currency)
		switch {
		case minor <= 0:
			require.Error(t, err)
		case minor > 999_999_999_999_999_999:
			require.Equal(t, failure.AmountTooLarge, failure.Of(err).Reason)
		default:
			require.NoError(t, err)
			require.Equal(t, m, got)
			exponent, _ := exponentOf(m.Currency)
			scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil)
			value, ok := new(big.Rat).SetString(m.Decimal())
			require.True(t, ok)
			require.Zero(t, value.Cmp(new(big.Rat).SetFrac(big.NewInt(minor), scale)))
		}
	})
}

// FuzzParseMoney: whatever the text, the amount has exactly its value, or it is refused with a reason.
func FuzzParseMoney(f *testing.F) {
	for _, text := range []string{"149.90", "0.01", "500", "18.600", "0", "-5", "+10", ".5", "5.", "1e3", "NaN", "", " 1", "007", "1_000", strings.Repeat("7", 40)} {
		f.Add(text, "EUR")
		f.Add(text, "JPY")
		f.Add(text, "KWD")
	}
	f.Fuzz(func(t *testing.T, text, currency string) {
		m, err := ParseMoney(text, currency)
		if err != nil {
			var f *failure.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, failure.ClassInvalid, f.Class())
			require.LessOrEqual(t, len(f.Detail), 500)
			return
		}
		require.NotContains(t, text, "/", "big.Rat reads fractions, too")
		want, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		got, ok := new(big.Rat).SetString(m.Decimal())
		require.True(t, ok)
		require.Zero(t, want.Cmp(got))
		require.Positive(t, m.Minor)
	})
}

func BenchmarkParseMoney(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = ParseMoney("149.90", "EUR")
	}
}
