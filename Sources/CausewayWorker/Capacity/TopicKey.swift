/// A topic of Causeway. The raw value is its key in `kafka.topics` of the configuration.
package enum TopicKey: String, CaseIterable, Sendable {
    case commands, registrations, results, invalidations, deadLetters, deferred, fanout, channels

    /// Whether Kafka keeps the newest record of each key in this topic without a limit of time.
    var isCompacted: Bool { self == .registrations || self == .channels }
}
