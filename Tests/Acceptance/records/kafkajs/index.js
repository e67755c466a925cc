// A stand-in for the Kafka client kafkajs. It prints each call as a line of JSON.
const print = (call, detail) => console.log(JSON.stringify({ call, ...detail }));

exports.Kafka = class {
  constructor({ brokers }) {
    this.brokers = brokers;
  }

  producer({ idempotent }) {
    print("producer", { brokers: this.brokers, idempotent });
    return {
      connect: async () => print("connect"),
      send: async ({ topic, acks, messages }) =>
        print("send", { topic, acks, messages: messages.map(({ key, value }) => [key, value]) }),
      disconnect: async () => print("disconnect"),
    };
  }
};
