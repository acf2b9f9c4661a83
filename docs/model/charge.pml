/*
 * One order on its way through the service: claim, lease, send, settle, publish, commit, under crashes, lost partitions,
 * frozen senders, lost answers, a provider that forgets keys, and a person who replays.
 *
 * It proves, for all orders of events within the bounds below:
 *   - money moves at most once, in each generation and over all of them (assert in Provider);
 *   - no order is forgotten: whenever an offset has moved, something durable stands for the order (ltl kept);
 *   - every run comes to rest, with the order charged or in front of a person (Rest, and the search for cycles).
 *
 * A macro NO_... takes one check out of the service. The script `check` shows that each of them is needed.
 */
#define HANDLERS 2  /* handlings of the order at a time: two instances, or one frozen and its successor */
#define REQUESTS 3  /* requests at the provider at a time */
#ifndef FAULTS
#define FAULTS   2  /* crashes and lost partitions, in all */
#endif
#define FAILURES 2  /* counted failures until the dead letters; the service has 4 */
#define CEILING  1  /* replays */

/* Time, in ticks. Only the order of these matters: send-by < lease < margin, and what the boot checks ask for. */
#define SENDBY   1  /* a send may start until then: lease less the provider's timeout */
#define LEASE    2
#define MAXPROC  1  /* the provider has finished a request that long after it was written */
#define WINDOW   2  /* the same key is safe to send again: key lifetime less margin */
#ifndef MARGIN
#define MARGIN   3  /* boot check: margin > lease */
#endif
#define TTL      (WINDOW + MARGIN)
#ifdef QUIET_FROM_CLAIM
#define QUIET    MAXPROC
#else
#define QUIET    (MAXPROC + LEASE) /* a claim may send that much later than it was made */
#endif
#define NEVER    15 /* an instant that is not set */

mtype = { none, inFlight, retryWait, unknown, succeeded, declined, rejected };      /* the order's row */
mtype = { charged, refused, lost, notSent };                                        /* beside declined: how a claim ended */
mtype = { send, lookUp, lookUpTooEarly };                                           /* what a claim must do first */
mtype = { open, replaying, replayed };                                              /* a dead letter; none: there is none */
mtype = { onWire, working, busy, free };                                            /* a request, a key; none: there is none */

/* charges: the row. Instants are kept as ages. */
mtype state = none; bit generation; bool outcomeUnknown; byte owner, lease; byte first = NEVER, last = NEVER, previous = NEVER;

/* The log: uncommitted records that nobody holds, by replays and failures so far; and the dead letters, by replays. */
typedef Rung { byte records[FAILURES] };
Rung waiting[CEILING + 1];
mtype letter[CEILING + 1] = none; mtype class[CEILING + 1] = none;

/* A handling. `ours` is the right to commit: the consumer lost it when the partition went to another (fencing). */
typedef Handling { bool ours; bit replays; byte failures; bit gen; bool unk; byte left; mtype plan = none; mtype end = none };
Handling h[HANDLERS];
bool killed[HANDLERS];

/* The provider: its requests, its memory of keys (one for each generation), its ledger. */
typedef Request { mtype at = none; bit gen; byte age; byte caller };
Request q[REQUESTS];
mtype key[2] = none; byte keyAge[2]; byte charges[2];
byte faults = FAULTS;

#define anywhere(r, f) (waiting[r].records[f] > 0)
#define inLog     (anywhere(0, 0) || anywhere(0, 1) || anywhere(1, 0) || anywhere(1, 1) || h[0].ours || h[1].ours)
#define withPerson(r) (letter[r] == open || letter[r] == replaying)
#define claimable (state == none || state == retryWait || state == unknown || (state == inFlight && lease == 0))

/* No offset moves before something else stands for the order: an uncommitted record, a dead letter, or the charge. */
ltl kept { [] (inLog || withPerson(0) || withPerson(1) || state == succeeded) }

#define me h[i]

/* pgstore.insertClaims: the lease, and that something may have been sent from now on (H2). Whoever takes over an expired
 * lease finds the outcome unknown (H5). Service.mustLookUp decides by the instants before this claim (H2, H3). */
inline claim() {
	me.gen = generation; me.left = SENDBY;
	me.unk = outcomeUnknown || state == inFlight || state == unknown;
	me.plan = (last == NEVER -> (me.replays > 0 || me.failures > 0 -> lookUp : send) : (first > WINDOW -> lookUp : send));
	if
	:: me.plan == lookUp && last <= QUIET -> me.plan = lookUpTooEarly
	:: else
	fi;
	state = inFlight; owner = i + 1; lease = LEASE; outcomeUnknown = me.unk; previous = last; last = 0;
	first = (first == NEVER -> 0 : first)
}
