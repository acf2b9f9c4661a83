package billing

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCurrencyTableIsWellFormed(t *testing.T) {
	require.Len(t, exponents, 155, "a change of ISO 4217 is entered here as well")
	for code, exponent := range exponents {
		require.Regexp(t, "^[A-Z]{3}$", code)
		require.Contains(t, []int{0, 2, 3}, exponent, code)
		require.True(t, KnownCurrency(code))
	}
}

// A code that stood in two rows would have whichever number of digits the map gave last, another one each start.
func TestCurrencyTableNamesNoCodeTwice(t *testing.T) {
	source, err := os.ReadFile("currency.go")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(source), "exponentTable(map[int]string{")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "})")
	codes := regexp.MustCompile(`\b[A-Z]{3}\b`).FindAllString(table, -1)
	require.Len(t, codes, len(exponents))
	slices.Sort(codes)
	require.Len(t, slices.Compact(codes), len(exponents))
}

func TestCurrencyExponents(t *testing.T) {
	byExponent := map[int][]string{}
	for code, e := range exponents {
		byExponent[e] = append(byExponent[e], code)
	}
	for _, codes := range byExponent {
		slices.Sort(codes)
	}
	require.Equal(t, strings.Fields("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"), byExponent[0])
	require.Equal(t, strings.Fields("BHD IQD JOD KWD LYD OMR TND"), byExponent[3])
	for _, code := range strings.Fields("EUR USD GBP CHF CAD AUD CNY INR BRL MXN ZAR SEK NOK DKK PLN CZK HUF TRY RON UAH IDR TWD COP MGA MRU CVE") {
		require.Contains(t, byExponent[2], code)
	}
}

func TestCurrencyUnknown(t *testing.T) {
	for _, code := range []string{
		"", "eur", "Eur", "EU", "EURO", " EUR", "EUR ", "ЕUR", "XYZ",
		"XAU", "XAG", "XDR", "XTS", "XXX", // no minor unit
		"DEM", "FRF", "HRK", "BGN", "SLL", "VEF", "ZWL", "MRO", "STD", // withdrawn
		"CLF", "UYI", "USN", "CHE", "CHW", "COU", "MXV", "BOV", "UYW", // units of account: nobody pays in them
	} {
		require.False(t, KnownCurrency(code), code)
	}
}
