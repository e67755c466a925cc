import Delivery

/// Questions for pages, collected so that they leave together.
///
/// A page that is requested alone costs the store and this process a write, a read and a wakeup each, several times the cost of its
/// bytes. So a question waits for others, but only for a short time. It does not wait when the waiting questions are a large part of all
/// pages, because their round might then stop.
struct PageReadBatch: ~Copyable {
    /// The longest time that a question waits for others.
    static var waitMilliseconds: Int64 { 20 }
    /// The questions leave at once when they are a quarter of all pages or more.
    private static var partOfPages: Int { 4 }

    private var tickets: IndexQueue<AudienceTicket>
    /// The time of the last check, and the time when the oldest question has waited long enough. Monotonic milliseconds.
    private var nowMilliseconds: Int64 = .min
    private var dueMilliseconds: Int64 = .max

    init(limit: Int) { tickets = IndexQueue(limit: limit) }

    mutating func append(_ ticket: AudienceTicket) {
        if tickets.isEmpty { dueMilliseconds = nowMilliseconds &+ Self.waitMilliseconds }
        tickets.append(ticket)
    }

    var count: Int { tickets.count }
    var isEmpty: Bool { tickets.isEmpty }

    /// When the questions leave at the latest; nil if there are none.
    var leaveAtMilliseconds: Int64? { tickets.isEmpty ? nil : dueMilliseconds }

    /// Whether the questions leave now.
    ///
    /// - Parameter pages: the number of pages in use, including those that are being requested.
    mutating func mustLeave(pages: Int, now: Moment) -> Bool {
        nowMilliseconds = now.monotonicMilliseconds
        guard !tickets.isEmpty else { return false }
        return tickets.count * Self.partOfPages >= pages || dueMilliseconds <= nowMilliseconds
    }

    mutating func popFirst() -> AudienceTicket? { tickets.popFirst() }
}

extension Audiences {
    /// Sends the collected questions, if it is time.
    mutating func askForPages(now: Moment) {
        guard pageQuestions.mustLeave(pages: pages.count, now: now) else { return }
        while let ticket = pageQuestions.popFirst() { storeQueue.append(ticket) }
    }
}
