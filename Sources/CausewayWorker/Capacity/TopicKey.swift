/// The key of a topic of Causeway in `kafka.topics`.
package enum TopicKey: String, CaseIterable, Sendable {
    case commands, registrations, results, invalidations, deadLetters, deferred, fanout, channels

    /// A compacted topic keeps the newest record of each key and has no retention.
    var isCompacted: Bool { self == .registrations || self == .channels }
}
