/*
 * One order on its way through the service: claim, look up, send, settle, publish, commit, replay; under crashes, lost
 * partitions, frozen senders, lost answers, and a provider that answers late and forgets keys.
 *
 * Proved within the bounds below, by looking at every reachable state:
 *   - money moves at most once, in each generation and over all of them       (assert in Provider)
 *   - no order is forgotten: where the offset has moved, its fate is durable  (ltl kept)
 *   - every run comes to rest: charged, or in front of a person               (Rest, and the search for cycles)
 *
 * Each macro NO_... takes one check out of the service; `check` shows that none of them can be spared.
 */
#ifndef RECORDS
#define RECORDS   1 /* of the main topic with this order: 2 when the shop has sent its event twice */
#endif
#ifndef FAULTS
#define FAULTS    2 /* crashes and lost partitions, in all */
#endif
#define HANDLERS  2 /* handlings of the order at a time: in two instances, or one frozen and its successor */
#define REQUESTS  2 /* requests in the network and at the provider at a time */
#define FAILURES  2 /* counted failures up to the dead letters; 4 in the service */

/* Time in ticks. A freeze needs no fault: any process may stand still for any number of ticks, but for the provider. */
#define SENDBY    1 /* how long after its claim a send may start: lease less provider timeout */
#define LEASE     2
#define MAXPROC   1 /* a request is done with that long after it was written */
#define WINDOW    2 /* the same key is safe to send again: key lifetime less margin */
#ifndef MARGIN
#define MARGIN    3 /* the boot check asks for more than the lease */
#endif
#define TTL       (WINDOW + MARGIN)
#ifdef NO_SEND_DELAY
#define QUIET     MAXPROC
#else
#define QUIET     (MAXPROC + LEASE) /* ServiceConfig.MaxProcessing: a send may start later than its claim */
#endif
#define NEVER     15 /* an instant that is not set */

mtype = { none,
	inFlight, retryWait, unknown, succeeded, declined, rejected, /* states of the row; none: no row */
	charged, refused, lost, notSent,                             /* with declined: how a claim ended */
	send, lookUp, lookUpEarly,                                   /* what a claim does first; early: an empty list proves nothing */
	ours, fenced,                                                /* a handling; fenced: its partition is another's, unnoticed */
	onWire, working, busy, idle,                                 /* a request; a key with one in work, with none */
	open, replaying, replayed }                                  /* a dead letter on the working list */

/* The row of table charges. Instants are kept as ages. owner is the claim id. */
mtype state = none;
bit generation; bool mayHaveMoved; byte owner, lease; byte first = NEVER, last = NEVER, previous = NEVER;

/* The log: uncommitted records that nobody handles, by replays and failures; and the dead letters, by replays. Records
 * wait as long as they like: due times only slow things down. */
typedef Rung { byte n[FAILURES] };
Rung waiting[2];
mtype letter[2] = none; mtype class = none; /* of the first one, which may be replayed */

typedef Handling { mtype hold = none; bit replays; byte failures; /* the record and the right to commit it */
	bit gen; bool unk; byte left; mtype plan = none; mtype end = none }; /* the claim; left: until send-by */
Handling h[HANDLERS];
bool killed[HANDLERS];
byte faults = FAULTS;

/* The provider: requests, what it remembers of the key of each generation, money that moved. */
typedef Request { mtype at = none; bit gen; byte age, caller };
Request q[REQUESTS];
mtype key[2] = none; byte keyAge[2], charges[2];

#define inLog      (waiting[0].n[0] + waiting[0].n[1] + waiting[1].n[0] + waiting[1].n[1] > 0)
#define handled    (h[0].hold == ours || h[1].hold == ours)
#define inFront(r) (letter[r] == open || letter[r] == replaying)

bool confirmed; /* the shop's event is acknowledged */
ltl kept { [] (confirmed -> inLog || handled || inFront(0) || inFront(1) || state == succeeded) }

/* pgstore.insertClaims, pgstore.newClaim and, by the instants from before this claim, Service.mustLookUp and its quiet. */
inline claim() {
	h[i].gen = generation; h[i].left = SENDBY;
	h[i].unk = mayHaveMoved || state == inFlight || state == unknown; /* H5: an expired lease is an unknown outcome */
	h[i].plan = send;
	if
	:: last == NEVER && h[i].replays + h[i].failures > 0 -> h[i].plan = lookUp /* H3 */
#ifndef NO_KEY_LIFETIME_CHECK
	:: last != NEVER && first > WINDOW -> h[i].plan = lookUp /* H2 */
#endif
	:: else
	fi;
#ifndef NO_QUIET
	if
	:: h[i].plan == lookUp && last <= QUIET -> h[i].plan = lookUpEarly /* H2: the last send may still be in work */
	:: else
	fi;
#endif
	state = inFlight; owner = i + 1; lease = LEASE; previous = last;
#ifdef NO_MAYBE_SENT
	if :: first != NEVER -> last = 0 :: else fi
#else
	mayHaveMoved = h[i].unk; last = 0; /* H2: the claim itself commits that something may be sent */
	if :: first == NEVER -> first = 0 :: else fi
#endif
}

inline forgetInstants() { mayHaveMoved = false; owner = 0; lease = 0; first = NEVER; last = NEVER; previous = NEVER }

/* The end of a claim that holds its row: Service.failed, pgstore.settleHeldSQL. */
inline settleHeld() {
	if
	:: h[i].end == declined -> state = declined; forgetInstants()
#ifdef NO_STICKY_UNKNOWN
	:: h[i].end == refused -> state = rejected; h[i].end = rejected; forgetInstants()
#else
	:: h[i].end == refused && !h[i].unk -> state = rejected; h[i].end = rejected; forgetInstants()
	:: h[i].end == refused && h[i].unk -> state = unknown; mayHaveMoved = true /* H5: it proves nothing of the earlier send */
#endif
	:: h[i].end == lost -> state = unknown; mayHaveMoved = true
	:: h[i].end == notSent -> /* proven: the instants are those from before the claim */
		state = (h[i].unk -> unknown : retryWait); mayHaveMoved = h[i].unk; last = previous;
		if :: previous == NEVER -> first = NEVER :: else fi
	fi;
	owner = 0; lease = 0; previous = NEVER
}

#ifdef NO_CLAIM_ID
#define holdsRow (state != succeeded) /* the guard trigger alone */
#else
#define holdsRow (state == inFlight && owner == i + 1) /* H9 */
#endif

/* pgstore.Settle; a failure that lost the row has no say (H17), a success is stored whoever holds it (pgstore.settleLate). */
inline settle() {
	if
	:: h[i].end == charged -> state = succeeded; forgetInstants()
	:: h[i].end != charged && holdsRow -> settleHeld()
	:: else -> h[i].end = none
	fi;
	h[i].gen = 0; h[i].unk = false; h[i].left = 0; h[i].plan = none
}

inline write() {
	j = (q[0].at == none -> 0 : 1);
	q[j].at = onWire; q[j].gen = h[i].gen; q[j].caller = i + 1; j = 0;
	h[i].gen = 0; h[i].left = 0; h[i].plan = none
}

inline hangUp() { j = 0; do :: j < REQUESTS -> if :: q[j].caller == i + 1 -> q[j].caller = 0 :: else fi; j++ :: else -> break od; j = 0 }

inline take(r, f) { atomic { waiting[r].n[f] > 0 && (i == 0 || h[0].hold != none) -> waiting[r].n[f]--; h[i].hold = ours; h[i].replays = r; h[i].failures = f } }

inline drop() { h[i].hold = none; h[i].replays = 0; h[i].failures = 0; h[i].end = none }

/* retry.Router: the next tier, or the dead letters. A letter has one identity: its repetition changes nothing (H17). */
inline publish() {
	if
	:: (h[i].end == lost || h[i].end == notSent) && h[i].failures + 1 < FAILURES -> waiting[h[i].replays].n[h[i].failures + 1]++
	:: else ->
		if
		:: letter[h[i].replays] == none -> letter[h[i].replays] = open;
			if :: h[i].replays == 0 -> class = (h[i].end == declined || h[i].end == rejected -> h[i].end : unknown) :: else fi
		:: else
		fi
	fi
}

/* kafkaclient.Consumer and orders.Processor.Process. Every step can be the last one (Faults). */
proctype Handler(byte i) {
	byte j;
end_poll: {
		if :: take(0, 0) :: take(0, 1) :: take(1, 0) :: take(1, 1) fi;
process: /* billing.Service.Charge. Where nothing is executable another holds a live lease: wait in memory, uncounted. */
		if
		:: atomic { state == none || state == retryWait || state == unknown || (state == inFlight && lease == 0) -> claim(); if :: h[i].plan == send -> goto sending :: else fi }
		:: atomic { state == succeeded -> goto commit } /* a duplicate */
#ifdef NO_DEAD_LETTER_AGAIN
		:: atomic { state == declined || state == rejected -> goto commit }
#else
		:: atomic { state == declined || state == rejected -> h[i].end = state; goto route } /* H4: only success is a duplicate */
#endif
		fi;
		if /* Service.lookUp */
		:: atomic { charges[0] + charges[1] > 0 -> h[i].end = charged; goto outcome } /* Service.adopt */
		:: atomic { h[i].plan == lookUp && charges[0] + charges[1] == 0 -> h[i].unk = false; h[i].plan = send; goto sending }
		:: atomic { h[i].end = notSent; goto outcome } /* failed, not consistent, or too early */
		fi;
sending:	if
#ifdef NO_LEASE_CHECK
		:: atomic { q[1].at == none -> write() }
#else
		:: atomic { h[i].left > 0 && q[1].at == none -> write() } /* H1: trip.aboutToWrite */
#endif
		:: atomic { h[i].end = notSent; goto outcome } /* no connection, or too late */
		fi;
		if
		:: atomic { h[i].end != none -> goto outcome }
		:: atomic { h[i].end == none -> h[i].end = lost; hangUp() } /* timeout, reset, unreadable */
		fi;
outcome:	atomic { settle();
			if
			:: h[i].end == none -> goto process
			:: h[i].end == charged -> goto commit
			:: else
			fi };
route:
#ifdef NO_FATE_FIRST
		h[i].hold = fenced; /* the offset moves before the record is acknowledged */
#endif
		if
		:: atomic { publish() } /* and acknowledged */
		:: h[i].hold == fenced /* the loss of the partition was noticed: nothing is published (H17) */
		fi;
commit:		atomic { drop() } /* fenced: the commit changes nothing */
	} unless { atomic { killed[i] -> killed[i] = false } };
	goto end_poll
}

/* A crash ends a handling without another step; a lost partition lets it go on, fenced. Both hand the record to the next. */
inline giveBack() { if :: h[i].hold == ours -> waiting[h[i].replays].n[h[i].failures]++ :: else fi }

proctype Faults() {
	byte i, j;
end:	do
	:: atomic { faults > 0 && handled ->
		if :: h[0].hold == ours -> i = 0 :: h[1].hold == ours -> i = 1 fi;
		faults--; giveBack(); h[i].hold = fenced; i = 0 }
	:: atomic { faults > 0 && (h[0].hold != none || h[1].hold != none) ->
		if :: h[0].hold != none -> i = 0 :: h[1].hold != none -> i = 1 fi;
		faults--; giveBack(); drop(); hangUp(); killed[i] = true;
		if :: owner == i + 1 -> owner = 0 :: else fi;
		h[i].gen = 0; h[i].unk = false; h[i].left = 0; h[i].plan = none; i = 0 }
	od
}

inline reply(what) {
	if :: q[j].caller > 0 -> h[q[j].caller - 1].end = what :: else fi;
	if /* the other one moves up: which place a request takes means nothing */
	:: j == 0 -> q[0].at = q[1].at; q[0].gen = q[1].gen; q[0].age = q[1].age; q[0].caller = q[1].caller
	:: else
	fi;
	q[1].at = none; q[1].gen = 0; q[1].age = 0; q[1].caller = 0
}

#define k key[q[j].gen]

/* docs: the provider's contract, at its worst. A key's lifetime counts from its first request, and it is forgotten even
 * while a request with it is in work. A refusal says nothing about other requests with the key. */
proctype Provider(byte j) {
end:	do
	:: atomic { q[j].at == onWire && (k == none || k == idle) -> k = busy; q[j].at = working }
	:: atomic { q[j].at == onWire && k == busy -> reply(lost) }
	:: atomic { q[j].at == onWire && (k == charged || k == declined) -> reply(k) }
	:: atomic { q[j].at == onWire -> reply(refused) } /* 400, 401, 404, 422 */
	:: atomic { q[j].at == working ->
		charges[q[j].gen]++;
		assert(charges[0] + charges[1] <= 1);
		if :: k == busy -> k = charged :: else fi; reply(charged) }
	:: atomic { q[j].at == working -> if :: k == busy -> k = declined :: else fi; reply(declined) }
	:: atomic { q[j].at == working -> if :: k == busy -> k = idle :: else fi; reply(lost) }
	od
}

#define older(age, most) age = (age < most -> age + 1 : age)
#define reply_due(j)     (q[j].at != none && q[j].age == MAXPROC)

/* A tick waits for nobody but the provider, which keeps its longest processing time. */
proctype Clock() {
	byte i;
end:	do
	:: atomic { !reply_due(0) && !reply_due(1) && (lease > 0 || first <= WINDOW || last <= QUIET || previous <= QUIET
			|| key[0] != none || key[1] != none || h[0].left > 0 || h[1].left > 0) ->
		if :: lease > 0 -> lease-- :: else fi;
		older(first, WINDOW + 1); older(last, QUIET + 1); older(previous, QUIET + 1);
		do :: i < HANDLERS -> if :: h[i].left > 0 -> h[i].left-- :: else fi; i++ :: else -> break od; i = 0;
		do :: i < REQUESTS -> if :: q[i].at != none -> q[i].age++ :: else fi; i++ :: else -> break od; i = 0;
		do :: i < 2 ->
			if
			:: key[i] != none && keyAge[i] + 1 < TTL -> keyAge[i]++
			:: key[i] != none && keyAge[i] + 1 >= TTL -> key[i] = none; keyAge[i] = 0
			:: else
			fi; i++
		:: else -> break od; i = 0 }
	od
}

/* deadletter.Replayer: take (a rejected order is opened again under a new key, H4), publish, mark. Taken up again after a
 * crash under the same id. */
proctype Person() {
end:	do
	:: atomic { letter[0] == open && class != declined -> letter[0] = replaying;
		if :: class == rejected && state == rejected -> state = retryWait; generation++ :: else fi; class = none };
again:		waiting[1].n[0]++;
		if
		:: letter[0] = replayed
		:: atomic { faults > 0 -> faults-- }; goto again
		fi
	od
}

/* When nothing can happen any more. */
proctype Rest() {
	timeout -> assert(!inLog && h[0].hold == none && h[1].hold == none && (state == succeeded || letter[0] == open || letter[1] == open))
}

init {
	atomic {
		waiting[0].n[0] = RECORDS; confirmed = true;
		run Handler(0); run Handler(1); run Faults(); run Provider(0); run Provider(1); run Clock(); run Person(); run Rest()
	}
}
