package kafkaclient

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each value would be heeded by the client, and break something that nobody would notice for long.
func TestExtraBounds(t *testing.T) {
	for _, wrong := range []string{
		"auto.commit.interval.ms=0", "auto.commit.interval.ms=-1", "auto.commit.interval.ms=3600000", "auto.commit.interval.ms=1s",
		"max.poll.interval.ms=9999", "client.rack=a,client.rack=b", "CLIENT.RACK=a", "\"client.rack=a\"",
	} {
		_, err := ParseExtra(wrong)
		require.Error(t, err, wrong)
	}
	_, err := ParseExtra("acks=1,auto.commit.interval.ms=0,client.rack")
	for _, part := range []string{"acks cannot be set", "auto.commit.interval.ms must be between 100 and 60000", "entry 3 is not key=value"} {
		require.ErrorContains(t, err, part, "all problems at once")
	}
}

// A password with a comma in it is cut in two; the rest is no property and must not be printed.
func TestTheRestOfASecretIsNotShown(t *testing.T) {
	for _, text := range []string{"sasl.password=first,second", "ssl.key.password=first,second=third", "sasl.password=first,go.second=x", "sasl.password first"} {
		err := CheckExtra(text)
		require.Error(t, err, text)
		for _, part := range []string{"first", "second", "third"} {
			require.NotContains(t, err.Error(), part, text)
		}
	}
}

func TestSecretPropertiesAreMasked(t *testing.T) {
	secret := []string{
		"sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config",
		"sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.client.credentials.client.secret",
	}
	shown := ShowExtra("client.rack=a," + strings.Join(secret, "=hidden,") + "=hidden")
	require.NotContains(t, shown, "hidden")
	require.Contains(t, shown, "client.rack=a")
	require.Equal(t, len(secret), strings.Count(shown, "=xxxxx"))
	require.Equal(t, "(set)", ShowExtra("sasl.password=hidden,hidden"))
}

func TestTheClientKnowsItsProperties(t *testing.T) {
	require.NoError(t, CheckExtra("client.rack=a,session.timeout.ms=45000,ssl.key.location=/not/here,linger.ms=5,group.instance.id=billing-0"),
		"what only goes together with others is left to Check")
	err := CheckExtra("sesion.timeout.ms=1,linger.ms=soon,client.rack=a")
	require.ErrorContains(t, err, "sesion.timeout.ms is not a property of the client")
	require.ErrorContains(t, err, "linger.ms has a value")
	require.NotContains(t, err.Error(), "client.rack")
}

// What only the client can judge is judged before anything starts.
func TestCheckAsksTheClient(t *testing.T) {
	require.NoError(t, Config{SecurityProtocol: "SASL_SSL", SASLMechanism: "SCRAM-SHA-512", SASLUsername: "u", SASLPassword: "p"}.Check())
	for part, c := range map[string]Config{
		"session.timeout.ms": {Extra: map[string]string{"session.timeout.ms": "20000", "max.poll.interval.ms": "10000"}},
		"ssl.ca.location":    {SecurityProtocol: "SSL", SSLCA: "/not/here"},
		"retries":            {Extra: map[string]string{"retries": "0"}},
	} {
		require.ErrorContains(t, c.Check(), part)
	}
}
