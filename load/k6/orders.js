// Orders through the shop's front door, at a constant rate whatever the answers take.
//
//   k6 run load/k6/orders.js
//   k6 run -e BASE_URL=http://127.0.0.1:8081 -e RATE=500 -e DURATION=2m load/k6/orders.js
import http from 'k6/http';
import { check } from 'k6';

const baseURL = __ENV.BASE_URL || 'http://127.0.0.1:8081';
const rate = Number(__ENV.RATE || 200); // orders a second

export const options = {
  scenarios: {
    orders: {
      executor: 'constant-arrival-rate',
      rate: rate,
      timeUnit: '1s',
      duration: __ENV.DURATION || '30s',
      preAllocatedVUs: Math.max(10, Math.ceil(rate / 4)),
      maxVUs: Math.max(50, rate * 2),
    },
  },
  thresholds: {
    http_req_failed: ['rate<0.001'],
    http_req_duration: ['p(95)<100'], // until the broker has acknowledged the event
    checks: ['rate>0.999'],
    dropped_iterations: ['count==0'], // else the rate above was not reached
  },
};

export default function () {
  const order = { customer_id: uuid(), total_amount: amount(), currency: 'EUR' };
  const answer = http.post(`${baseURL}/orders`, JSON.stringify(order), {
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': uuid() },
  });
  check(answer, {
    'is 201': (r) => r.status === 201,
    'names the order': (r) => r.status === 201 && r.json('order_id').length === 36,
  });
}

// A decimal text, never a float: 1.00 to 999.99.
function amount() {
  const cents = 100 + Math.floor(Math.random() * 99900);
  return `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
}

// A version 4 UUID, without a library that would have to be fetched.
function uuid() {
  return 'xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'.replace(/x/g, () => Math.floor(Math.random() * 16).toString(16));
}
