import Logging

/// Which warnings and errors have been written before, by kind and subject: a retry that fails for the same reason is written at growing
/// intervals.
struct LogRepetition {
    /// The first interval between two lines about the same subject. Each further one is twice as long.
    static let firstIntervalMilliseconds: Int64 = 2_000
    static let intervalMillisecondsMax: Int64 = 60_000
    /// The most subjects that are known. A further one replaces the one that was seen longest ago.
    static let subjectsMax = 64
    /// The most replaced troubles whose recoveries are still written.
    static let replacedMax = 1_024

    private struct Trouble: Hashable {
        var kind: LogKind
        /// The pool that the lines are about. A recovery ends only troubles of its own pool.
        var pool: String?

        init(_ kind: LogKind, _ fields: Logger.Metadata) {
            self.kind = kind
            pool = fields["pool"].map { "\($0)" }
        }
    }

    private struct Subject {
        var trouble: Trouble
        var digest: Int
        var seenMilliseconds: Int64
        var nextMilliseconds: Int64
        var intervalMilliseconds: Int64
        var leftOut: UInt64 = 0
    }

    private var subjects: [Subject] = []
    /// Troubles whose subjects have been replaced, with the number of lines left out.
    private var replaced: [Trouble: UInt64] = [:]

    init() { subjects.reserveCapacity(Self.subjectsMax) }

    /// - Returns: nil if the line is left out; else how many were left out since the last line about its subject, or about its trouble if
    ///   the subject was replaced.
    mutating func admit(_ kind: LogKind, _ fields: Logger.Metadata, nowMilliseconds: Int64) -> UInt64? {
        let digest = Self.digest(kind, fields)
        guard let index = subjects.firstIndex(where: { $0.digest == digest && $0.trouble.kind == kind }) else {
            add(
                Subject(
                    trouble: Trouble(kind, fields),
                    digest: digest,
                    seenMilliseconds: nowMilliseconds,
                    nextMilliseconds: nowMilliseconds + Self.firstIntervalMilliseconds,
                    intervalMilliseconds: Self.firstIntervalMilliseconds
                )
            )
            return takeReplaced(Trouble(kind, fields))
        }
        var subject = subjects[index]
        defer { subjects[index] = subject }
        let isRare = nowMilliseconds - subject.seenMilliseconds >= Self.intervalMillisecondsMax
        subject.seenMilliseconds = nowMilliseconds
        guard nowMilliseconds >= subject.nextMilliseconds else {
            subject.leftOut &+= 1
            return nil
        }
        subject.intervalMilliseconds =
            isRare
            ? Self.firstIntervalMilliseconds
            : min(subject.intervalMilliseconds * 2, Self.intervalMillisecondsMax)
        subject.nextMilliseconds = nowMilliseconds + subject.intervalMilliseconds
        defer { subject.leftOut = 0 }
        return subject.leftOut
    }

    /// Forgets troubles that are over, so that the next one is written at once.
    ///
    /// - Returns: how many lines about them were left out since the last one that was written; nil if none of them was known.
    mutating func forget(_ kinds: [LogKind], _ fields: Logger.Metadata) -> UInt64? {
        let troubles = kinds.map { Trouble($0, fields) }
        let known =
            subjects.filter { troubles.contains($0.trouble) }.map(\.leftOut)
            + troubles.compactMap { replaced.removeValue(forKey: $0) }
        guard !known.isEmpty else { return nil }
        subjects.removeAll { troubles.contains($0.trouble) }
        return known.reduce(0, &+)
    }

    /// How many lines about a replaced trouble were left out. The trouble stays known until its recovery.
    private mutating func takeReplaced(_ trouble: Trouble) -> UInt64 {
        guard let leftOut = replaced[trouble] else { return 0 }
        replaced[trouble] = 0
        return leftOut
    }

    private mutating func add(_ subject: Subject) {
        guard subjects.count == Self.subjectsMax,
            let oldest = subjects.indices.min(by: { subjects[$0].seenMilliseconds < subjects[$1].seenMilliseconds })
        else { return subjects.append(subject) }
        let old = subjects[oldest]
        if replaced.count < Self.replacedMax || replaced[old.trouble] != nil {
            replaced[old.trouble, default: 0] &+= old.leftOut
        }
        subjects[oldest] = subject
    }

    /// All that a line says, except who says it.
    private static func digest(_ kind: LogKind, _ fields: Logger.Metadata) -> Int {
        var hasher = Hasher()
        hasher.combine(kind)
        for (name, value) in fields.sorted(by: { $0.key < $1.key }) where name != "lane" && name != "connection" {
            hasher.combine(name)
            hasher.combine("\(value)")
        }
        return hasher.finalize()
    }
}
