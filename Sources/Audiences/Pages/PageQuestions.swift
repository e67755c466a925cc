import Delivery

/// Pages that are to be asked for, until they are asked for together.
///
/// A page by itself costs the store and this process a write, a read and a wakeup each, which is several times what its bytes cost. So a
/// question waits for others, but never for long, and never while it is a large part of all pages: then its round might stand still for it.
struct PageQuestions: ~Copyable {
    /// A question waits for others no longer than this.
    static var waitMilliseconds: Int64 { 20 }
    /// Questions leave when they are this part of the pages that there are.
    private static var partOfPages: Int { 4 }

    private var tickets: IndexQueue<AudienceTicket>
    /// When the time was last told, and when the oldest question has waited long enough; monotonic.
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
    /// - Parameter pages: all that there are, those that are asked for among them.
    mutating func mustLeave(pages: Int, now: Moment) -> Bool {
        nowMilliseconds = now.monotonicMilliseconds
        guard !tickets.isEmpty else { return false }
        return tickets.count * Self.partOfPages >= pages || dueMilliseconds <= nowMilliseconds
    }

    mutating func popFirst() -> AudienceTicket? { tickets.popFirst() }
}

extension Audiences {
    /// Asks for the pages that are to be asked for, if it is time.
    mutating func askForPages(now: Moment) {
        guard pageQuestions.mustLeave(pages: pages.count, now: now) else { return }
        while let ticket = pageQuestions.popFirst() { storeQueue.append(ticket) }
    }
}
