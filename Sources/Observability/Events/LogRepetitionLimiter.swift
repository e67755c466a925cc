import Logging

/// Lets equal warnings and errors be written only at growing intervals. Otherwise, during an outage, equal lines of
/// lanes that try again every few seconds would use up the limit of their kind (``LimitedLog/linesPerPeriodMax``).
///
/// Lines of one kind with equal fields (apart from the lane and the connection) have one *subject*. All subjects of one
/// kind and one pool belong to one *failure*, which ends with a line that reports a recovery.
struct LogRepetitionLimiter {
    /// The first interval between two written lines with one subject. Each further interval is twice as long, at most
    /// `intervalMillisecondsMax`. If no line with the subject comes for `intervalMillisecondsMax`, the first interval
    /// applies again.
    static let firstIntervalMilliseconds: Int64 = 2_000
    static let intervalMillisecondsMax: Int64 = 60_000
    /// The maximum number of subjects that the limiter remembers. For a further one, it forgets the subject that has
    /// had no line for the longest time.
    static let subjectsMax = 64
    /// The maximum number of failures for which the limiter still counts left-out lines when it has forgotten their
    /// subjects (`repeatCountsOfForgottenSubjects`). For further failures, this number is lost.
    static let failuresWithForgottenSubjectsMax = 1_024

    private struct Failure: Hashable {
        var kind: LogKind
        /// The failure's pool, which the fields of its lines name; nil if they name none. A line about a recovery ends
        /// only failures of its own pool.
        var pool: String?

        init(_ kind: LogKind, _ fields: Logger.Metadata) {
            self.kind = kind
            pool = fields["pool"].map { "\($0)" }
        }
    }

    private struct Subject {
        var failure: Failure
        var digest: Int
        var lastSeenAtMilliseconds: Int64
        var nextLineDueMilliseconds: Int64
        var intervalMilliseconds: Int64
        var repeatCount: UInt64 = 0
    }

    private var subjects: [Subject] = []
    /// For each failure of which the limiter has forgotten subjects (``subjectsMax``): how many lines with these
    /// subjects were left out and not reported yet.
    ///
    /// An entry stays, even with the number 0, until a line reports the end of the failure. It shows that there was a
    /// failure, so that the line about its end is always written (``forgetFailures(_:_:)``).
    private var repeatCountsOfForgottenSubjects: [Failure: UInt64] = [:]

    init() { subjects.reserveCapacity(Self.subjectsMax) }

    /// Decides whether a line is written.
    ///
    /// - Returns: nil if the line is left out; otherwise the number of earlier left-out lines that this line must
    ///   report: those with its subject since this subject's last written line. If the limiter does not remember the
    ///   subject, those with forgotten subjects of the same failure.
    mutating func takeRepeatCountIfLineIsDue(_ kind: LogKind, _ fields: Logger.Metadata, nowMilliseconds: Int64)
        -> UInt64?
    {
        let digest = Self.digest(kind, fields)
        guard let index = subjects.firstIndex(where: { $0.digest == digest && $0.failure.kind == kind }) else {
            add(
                Subject(
                    failure: Failure(kind, fields),
                    digest: digest,
                    lastSeenAtMilliseconds: nowMilliseconds,
                    nextLineDueMilliseconds: nowMilliseconds + Self.firstIntervalMilliseconds,
                    intervalMilliseconds: Self.firstIntervalMilliseconds
                )
            )
            return takeRepeatCountOfForgottenSubjects(in: Failure(kind, fields))
        }
        var subject = subjects[index]
        defer { subjects[index] = subject }
        let isAfterPause = nowMilliseconds - subject.lastSeenAtMilliseconds >= Self.intervalMillisecondsMax
        subject.lastSeenAtMilliseconds = nowMilliseconds
        guard nowMilliseconds >= subject.nextLineDueMilliseconds else {
            subject.repeatCount &+= 1
            return nil
        }
        subject.intervalMilliseconds =
            isAfterPause
            ? Self.firstIntervalMilliseconds
            : min(subject.intervalMilliseconds * 2, Self.intervalMillisecondsMax)
        subject.nextLineDueMilliseconds = nowMilliseconds + subject.intervalMilliseconds
        defer { subject.repeatCount = 0 }
        return subject.repeatCount
    }

    /// Forgets failures that have ended, so that the first line of a new failure is written at once.
    ///
    /// - Returns: how many lines of the failures were left out and not reported yet; nil if no failure was remembered.
    mutating func forgetFailures(_ kinds: [LogKind], _ fields: Logger.Metadata) -> UInt64? {
        let failures = kinds.map { Failure($0, fields) }
        let repeatCounts =
            subjects.filter { failures.contains($0.failure) }.map(\.repeatCount)
            + failures.compactMap { repeatCountsOfForgottenSubjects.removeValue(forKey: $0) }
        guard !repeatCounts.isEmpty else { return nil }
        subjects.removeAll { failures.contains($0.failure) }
        return repeatCounts.reduce(0, &+)
    }

    /// Returns the failure's number in `repeatCountsOfForgottenSubjects`, and sets it to 0. The entry stays until a
    /// line reports the failure's end.
    private mutating func takeRepeatCountOfForgottenSubjects(in failure: Failure) -> UInt64 {
        guard let repeatCount = repeatCountsOfForgottenSubjects[failure] else { return 0 }
        repeatCountsOfForgottenSubjects[failure] = 0
        return repeatCount
    }

    private mutating func add(_ subject: Subject) {
        guard subjects.count == Self.subjectsMax,
            let oldestIndex = subjects.indices.min(by: {
                subjects[$0].lastSeenAtMilliseconds < subjects[$1].lastSeenAtMilliseconds
            })
        else { return subjects.append(subject) }
        let oldestSubject = subjects[oldestIndex]
        if repeatCountsOfForgottenSubjects.count < Self.failuresWithForgottenSubjectsMax
            || repeatCountsOfForgottenSubjects[oldestSubject.failure] != nil
        {
            repeatCountsOfForgottenSubjects[oldestSubject.failure, default: 0] &+= oldestSubject.repeatCount
        }
        subjects[oldestIndex] = subject
    }

    /// Returns the digest that identifies a line's subject: a hash of its kind and of its fields without the lane and
    /// the connection.
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
