// Registers a phone's activity and sends it a goal.
//
//     node goal.mjs --print              prints the records: topic, key and value in each line
//     node goal.mjs BOOTSTRAP_SERVERS    writes the records to Kafka (npm install kafkajs)

const app = "com.example.match";
const secondsFrom1970To2001 = 978_307_200;

// A Date in Swift. The app's JSONDecoder reads it as seconds since 2001. Apple's own keys in aps are UNIX seconds.
const swiftDate = (unixSeconds) => unixSeconds - secondsFrom1970To2001;

// The record that the app's server writes when the app reports a token.
const registration = (activity, token, now) => ({
  app,
  activity,
  token,
  environment: "production",
  registeredAt: now * 1000,
  frequentUpdates: true,
});

// The command with the new state and an alert. JSON.stringify keeps the order of keys, so the same state always has the same bytes.
const goal = (activity, now, home, away) => ({
  app,
  activity,
  id: `goal-${home}-${away}`,
  aps: {
    event: "update",
    timestamp: now,
    "stale-date": now + 600,
    "content-state": { home, away, kickOff: swiftDate(now - 1020) },
    alert: { title: "Goal for Rovers", body: `${home}:${away}`, sound: "default" },
  },
});

const records = (now) => {
  const activity = "final-phone-21";
  return [
    ["causeway.registrations", activity, JSON.stringify(registration(activity, "5c1e0a77b2d4f839", now))],
    ["causeway.commands", activity, JSON.stringify(goal(activity, now, 1, 0))],
  ];
};

const [target] = process.argv.slice(2);
if (target === "--print") {
  for (const record of records(1790000000)) console.log(record.join("\t"));
} else {
  const { Kafka } = await import("kafkajs");
  const producer = new Kafka({ brokers: target.split(",") }).producer({ idempotent: true });
  await producer.connect();
  for (const [topic, key, value] of records(Math.floor(Date.now() / 1000))) {
    await producer.send({ topic, acks: -1, messages: [{ key, value }] });
  }
  await producer.disconnect();
}
