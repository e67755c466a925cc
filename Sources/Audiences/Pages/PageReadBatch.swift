import Delivery

/// Requests for pages and directories, collected so that they are sent together.
///
/// A request that is sent alone costs the store and this process a write, a read and a wakeup each. This is several
/// times the cost of the page's bytes. So a request waits a short time for others. Exception: if many of the lane's
/// pages are requested and not read yet, few rounds (``RoundSlot``) have members to send to, and the requests are sent
/// at once.
struct PageReadBatch: ~Copyable {
    /// The longest time that a request waits for others. With this wait and shared checkpoints, Redis reads its sockets
    /// 2,100 instead of 7,800 times for a round of 1,000,000 members (Measurements.md).
    static var waitMillisecondsMax: Int64 { 20 }
    /// The requests are sent at once if at most this many pages are in use for each request: for example, 10 requests
    /// if at most 40 pages are in use.
    private static var usedPagesPerRequestMax: Int { 4 }

    private var tickets: IndexQueue<AudienceTicket>
    /// When ``noteSendCheck(now:)`` was last called (monotonic milliseconds); `.min`: never. ``append(_:)`` gets no
    /// time, so the wait of a batch's first request counts from this time.
    private var lastSendCheckAtMilliseconds: Int64 = .min
    /// When the batch's first request has waited long enough (monotonic milliseconds). Without requests, the value has
    /// no meaning.
    private var dueMilliseconds: Int64 = .max

    init(limit: Int) { tickets = IndexQueue(limit: limit) }

    mutating func append(_ ticket: AudienceTicket) {
        if tickets.isEmpty { dueMilliseconds = lastSendCheckAtMilliseconds &+ Self.waitMillisecondsMax }
        tickets.append(ticket)
    }

    var count: Int { tickets.count }
    var isEmpty: Bool { tickets.isEmpty }

    /// When the requests leave at the latest (monotonic milliseconds); nil if there are none.
    var sendDueMilliseconds: Int64? { tickets.isEmpty ? nil : dueMilliseconds }

    /// Notes the time at which the core checks whether to send the requests. Call this before each
    /// ``mustSend(usedPageCount:now:)``.
    mutating func noteSendCheck(now: Moment) { lastSendCheckAtMilliseconds = now.monotonicMilliseconds }

    /// Whether the requests must be sent now.
    ///
    /// - Parameter usedPageCount: the number of pages in use, including those that are being requested.
    func mustSend(usedPageCount: Int, now: Moment) -> Bool {
        guard !tickets.isEmpty else { return false }
        return tickets.count * Self.usedPagesPerRequestMax >= usedPageCount
            || dueMilliseconds <= now.monotonicMilliseconds
    }

    mutating func popFirst() -> AudienceTicket? { tickets.popFirst() }
}

extension Audiences {
    /// Moves the collected requests to the queue of store calls, if they need not wait for others any longer.
    mutating func sendPageReadsIfDue(now: Moment) {
        pageReads.noteSendCheck(now: now)
        guard pageReads.mustSend(usedPageCount: pages.count, now: now) else { return }
        while let ticket = pageReads.popFirst() { storeQueue.append(ticket) }
    }
}
