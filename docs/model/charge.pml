/*
 * One order on its way through the service: claim, look up, send, settle, publish, commit, replay; under crashes, lost
 * partitions, frozen senders, lost answers, and a provider that answers late and forgets keys.
 *
 * Within the bounds below every reachable state is looked at:
 *   - money moves at most once, in each generation and over all of them       (assert in Provider)
 *   - what is called declined or rejected was not charged and will not be     (assert in Provider and refusedForGood)
 *   - no order is forgotten: where the offset has moved, its fate is durable  (ltl kept)
 *   - every run comes to rest: charged, or in front of a person               (Rest, and the search for cycles)
 *
 * Each macro NO_... takes one check out of the service; `check` shows that none of them can be spared.
 */
#ifndef FAULTS
#define FAULTS      1 /* crashes and lost partitions, in all */
#endif
#ifndef REPLAYS
#define REPLAYS     1 /* 0 or 1 */
#endif
#define HANDLERS    2 /* handlings of the order at a time: in two instances, or one frozen and its successor */
#define REQUESTS    2 /* requests in the network and at the provider at a time */
#define FAILURES    2 /* counted failures up to the dead letters, and 1 after a replay; in the service 4 and 4 */

/* Time in ticks. A freeze needs no fault: anything but the provider may stand still for any number of ticks. */
#define SENDBY      2 /* how long after its claim a send may start */
#define LEASE       2 /* the shortest: it ends with the last instant to send */
#define MAXPROC     1 /* a request is done with that long after it was written */
#define WINDOW      2 /* the same key is safe to send again: key lifetime less margin */
#ifndef MARGIN
#define MARGIN      (LEASE + MAXPROC) /* a send at the end of the window is written and worked on that much later */
#endif
#ifdef NO_SEND_DELAY
#define QUIET       MAXPROC
#else
#define QUIET       (LEASE + MAXPROC) /* ServiceConfig.MaxProcessing: instants are those of claims, the send came later */
#endif
#define NEVER       15 /* an instant that is not set */

mtype = { none,
	inFlight, retryWait, unknown, succeeded, declined, rejected, /* states of the row; none: no row */
	charged, refused, lost, notSent,                             /* with declined: how a claim ended */
	send, lookUp, lookUpEarly,                                   /* what a claim does first; early: an empty list proves nothing */
	ours, fenced,                                                /* a handling; fenced: the partition is another's by now */
	onWire, working, busy, idle,                                 /* a request; a key with a request in work, with none */
	open, replaying, replayed }                                  /* a dead letter on the working list */

/* The row of table charges: instants as ages, owner as the claim id. */
mtype state = none;
bit generation; bool mayHaveMoved; byte owner, lease; byte first = NEVER, last = NEVER, previous = NEVER;

/* The log: uncommitted records that nobody handles, by replays and failures; and the dead letters, by replays. A record
 * waits as long as it likes: due times only take runs away. */
typedef Rung { byte n[FAILURES] };
Rung waiting[2];
mtype letter[2] = none, class = none; /* class: of the first letter, the one that may be replayed */

typedef Handling {
	mtype hold = none; bit replays; byte failures;                        /* the record, and the right to commit it */
	bit gen; bool unk; byte left; mtype plan = none; mtype end = none };  /* the claim; left: until send-by */
Handling h[HANDLERS];
bool killed[HANDLERS];
byte faults = FAULTS;

/* The provider: requests, what it remembers of the key of each generation, money that moved. */
typedef Request { mtype at = none; bit gen; byte age, caller };
Request q[REQUESTS];
mtype key[2] = none; byte keyAge[2], charges[2];

bool confirmed; /* the order's event is in the log */

#define moved      (charges[0] + charges[1])
#define inLog      (waiting[0].n[0] + waiting[0].n[1] + waiting[1].n[1] > 0)
#define handled    (h[0].hold == ours || h[1].hold == ours)
#define inFront(r) (letter[r] == open || letter[r] == replaying)

ltl kept { [] (confirmed -> inLog || handled || inFront(0) || inFront(1) || state == succeeded) }

/* pgstore.insertClaims, pgstore.newClaim; and Service.mustLookUp, which goes by the instants from before this claim. */
inline claim() {
	h[i].gen = generation; h[i].left = SENDBY; h[i].plan = send;
	h[i].unk = mayHaveMoved || state == inFlight || state == unknown; /* H5: who takes over an expired lease knows nothing */
	if
	:: last == NEVER && h[i].replays + h[i].failures > 0 -> h[i].plan = lookUp /* H3 */
#ifndef NO_KEY_LIFETIME_CHECK
	:: last != NEVER && first > WINDOW -> h[i].plan = lookUp /* H2 */
#endif
	:: else
	fi;
#ifndef NO_QUIET
	if
	:: h[i].plan == lookUp && last <= QUIET -> h[i].plan = lookUpEarly /* H2: the last send may still be worked on */
	:: else
	fi;
#endif
	state = inFlight; owner = i + 1; lease = LEASE; previous = last;
#ifndef NO_MAYBE_SENT
	mayHaveMoved = h[i].unk; last = 0; /* H2: the claim itself commits that something may be sent from now on */
	if :: first == NEVER -> first = 0 :: else fi
#endif
}

inline forgetInstants() { mayHaveMoved = false; owner = 0; lease = 0; first = NEVER; last = NEVER; previous = NEVER }

inline refusedForGood(how) { assert(moved == 0); state = how; h[i].end = how; forgetInstants() }

/* The end of a claim that holds its row: Service.failed, pgstore.settleHeldSQL. */
inline settleHeld() {
	if
	:: h[i].end == declined -> refusedForGood(declined)
#ifdef NO_STICKY_UNKNOWN
	:: h[i].end == refused -> refusedForGood(rejected)
#else
	:: h[i].end == refused && !h[i].unk -> refusedForGood(rejected)
	:: h[i].end == refused && h[i].unk -> state = unknown; mayHaveMoved = true /* H5: it proves nothing of an earlier send */
#endif
	:: h[i].end == lost -> state = unknown; mayHaveMoved = true
	:: h[i].end == notSent -> /* H2: proven, so the instants from before the claim hold again */
		state = (h[i].unk -> unknown : retryWait); mayHaveMoved = h[i].unk; last = previous;
		if :: previous == NEVER -> first = NEVER :: else fi
	fi;
	owner = 0; lease = 0; previous = NEVER
}

#ifdef NO_CLAIM_ID
#define holdsRow (state != succeeded) /* what the guard trigger would leave */
#else
#define holdsRow (state == inFlight && owner == i + 1) /* H9 */
#endif

/* pgstore.Settle. A failure that lost the row has no say (H17); a success is stored whoever holds it (pgstore.settleLate). */
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

/* The handlers are alike, so the second takes a record only while the first is busy. */
inline take(r, f) {
	atomic { waiting[r].n[f] > 0 && (i == 0 || h[0].hold != none) ->
		waiting[r].n[f]--; h[i].hold = ours; h[i].replays = r; h[i].failures = f }
}

inline drop() { h[i].hold = none; h[i].replays = 0; h[i].failures = 0; h[i].end = none }

/* kafkaclient.Consumer, orders.Processor.Process, billing.Service.Charge. Any step can be the last one (Faults). */
proctype Handler(byte i) {
	byte j;
end_poll: {
		if :: take(0, 0) :: take(0, 1) :: take(1, FAILURES - 1) fi;
charge:		if /* none of them: another holds a live lease, and the message waits in memory, uncounted */
		:: atomic { state == none || state == retryWait || state == unknown || (state == inFlight && lease == 0) -> claim();
			if :: h[i].plan == send -> goto sending :: else fi }
		:: atomic { state == succeeded -> goto commit } /* a duplicate */
#ifdef NO_DEAD_LETTER_AGAIN
		:: atomic { state == declined || state == rejected -> goto commit }
#else
		:: atomic { state == declined || state == rejected -> h[i].end = state; goto route } /* H4: only success is a duplicate */
#endif
		fi;
		if /* Service.lookUp */
		:: atomic { moved > 0 -> h[i].end = charged; goto outcome }
		:: atomic { moved == 0 && h[i].plan == lookUp -> h[i].unk = false; h[i].plan = send; goto sending }
		:: atomic { h[i].end = notSent; goto outcome } /* it failed, was not consistent, or came too early */
		fi;
sending:	if
#ifdef NO_LEASE_CHECK
		:: atomic { q[REQUESTS - 1].at == none -> write() }
#else
		:: atomic { q[REQUESTS - 1].at == none && h[i].left > 0 -> write() } /* H1: httpprovider's trip.aboutToWrite */
#endif
		:: atomic { h[i].end = notSent; goto outcome } /* too late, or no connection */
		fi;
		if
		:: atomic { h[i].end != none -> goto outcome }
		:: atomic { h[i].end == none -> h[i].end = lost; hangUp() } /* timeout, reset, unreadable answer */
		fi;
outcome:	atomic { settle();
			if :: h[i].end == none :: h[i].end == charged -> goto commit :: else -> goto route fi };
progress:	goto charge; /* taken over: uncounted, so two handlings could do this to each other, each time frozen past the lease */
route:
#ifdef NO_FATE_FIRST
		h[i].hold = fenced; /* that is, the offset moves here */
#endif
		if
		:: atomic { publish() } /* and acknowledged by the broker */
		:: h[i].hold == fenced  /* the loss of the partition was noticed: nothing is published (H17) */
		fi;
commit:		atomic { drop() } /* a fenced commit changes nothing: the record is with its next owner */
	} unless { atomic { killed[i] -> killed[i] = false } };
	goto end_poll
}

#include "world.pml"

init {
	atomic {
		waiting[0].n[0] = 1; confirmed = true;
		run Handler(0); run Handler(1); run Faults(); run Provider(0); run Provider(1); run Clock(); run Person(); run Rest()
	}
}
