/// A topic of Causeway, as `kafka.topics` in the configuration names it.
package enum TopicKey: String, CaseIterable, Sendable {
    case commands, registrations, results, invalidations, deadLetters, deferred, fanout, channels

    /// Whether Kafka keeps the newest record of each key in this topic without a limit of time.
    var isCompacted: Bool { self == .registrations || self == .channels }
}
