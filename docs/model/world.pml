/*
 * The world around the service: crashes and rebalances, the provider at its worst, time, and the person.
 */

inline giveBack() { if :: h[i].hold == ours -> waiting[h[i].replays].n[h[i].failures]++ :: else fi }

/* A lost partition leaves its handling running, fenced; a crash ends it. The record goes to the next owner in both. */
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
	if :: j == 0 -> q[0].at = q[1].at; q[0].gen = q[1].gen; q[0].age = q[1].age; q[0].caller = q[1].caller :: else fi; /* move up */
	q[1].at = none; q[1].gen = 0; q[1].age = 0; q[1].caller = 0
}

#define k key[q[j].gen]

/* The provider's contract at its worst: a key's lifetime counts from its first request, it ends even while another request
 * is worked on, and a refusal (400, 401, 404, 422, 429) says nothing about other requests with the key. */
proctype Provider(byte j) {
end:	do
	:: atomic { q[j].at == onWire && (k == none || k == idle) -> k = busy; q[j].at = working }
	:: atomic { q[j].at == onWire && k == busy -> reply(lost) } /* 409: in progress */
	:: atomic { q[j].at == onWire && (k == charged || k == declined) -> reply(k) }
	:: atomic { q[j].at == onWire -> reply(refused) }
	:: atomic { q[j].at == working -> charges[q[j].gen]++;
		assert(moved <= 1 && state != declined && state != rejected);
		if :: k == busy -> k = charged :: else fi; reply(charged) }
	:: atomic { q[j].at == working -> if :: k == busy -> k = declined :: else fi; reply(declined) }
	:: atomic { q[j].at == working -> if :: k == busy -> k = idle :: else fi; reply(lost) } /* 5xx */
	od
}

#define due(j)          (q[j].at != none && q[j].age == MAXPROC)
#define grow(age, most) age = (age < most -> age + 1 : age)

/* A tick waits for nobody but the provider, and stops when nothing counts time. */
proctype Clock() {
	byte i;
end:	do
	:: atomic { !due(0) && !due(1) && (lease > 0 || first <= WINDOW || last <= QUIET || previous <= QUIET
			|| key[0] != none || key[1] != none || h[0].left > 0 || h[1].left > 0) ->
		if :: lease > 0 -> lease-- :: else fi;
		grow(first, WINDOW + 1); grow(last, QUIET + 1); grow(previous, QUIET + 1);
		do
		:: i < 2 -> /* handlers, requests, keys */
			if :: h[i].left > 0 -> h[i].left-- :: else fi;
			if :: q[i].at != none -> q[i].age++ :: else fi;
			if
			:: key[i] != none && keyAge[i] + 1 < WINDOW + MARGIN -> keyAge[i]++
			:: key[i] != none && keyAge[i] + 1 >= WINDOW + MARGIN -> key[i] = none; keyAge[i] = 0 /* forgotten */
			:: else
			fi;
			i++
		:: else -> i = 0; break
		od }
	od
}

/* deadletter.Replayer: take (a rejected order gets a new key, H4), publish, mark; after a crash again under the same id. */
proctype Person() {
end:	do
	:: atomic { REPLAYS > 0 && letter[0] == open && class != declined -> letter[0] = replaying;
		if :: class == rejected && state == rejected -> state = retryWait; generation++ :: else fi; class = none };
again:		waiting[1].n[FAILURES - 1]++;
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
