package billing

import "strings"

// exponents of the active currencies of ISO 4217 (List One), by number of fraction digits. CLDR, and so x/text/currency,
// rounds some of them otherwise for display, which must not decide what is charged. Codes without a minor unit (metals,
// XDR, test codes) are left out: nobody is charged in them.
var exponents = exponentTable(map[int]string{
	0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
	2: `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE
		CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS
		KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR
		NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS
		TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG`,
	3: "BHD IQD JOD KWD LYD OMR TND",
})

func exponentTable(byDigits map[int]string) map[string]int {
	table := map[string]int{}
	for digits, codes := range byDigits {
		for code := range strings.FieldsSeq(codes) {
			table[code] = digits
		}
	}
	return table
}

// exponentOf is the number of fraction digits of a currency; upper-case codes only.
func exponentOf(currency string) (int, bool) {
	e, ok := exponents[currency]
	return e, ok
}

// KnownCurrency reports whether orders can be charged in the currency.
func KnownCurrency(code string) bool { _, ok := exponents[code]; return ok }
