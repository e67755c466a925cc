/// One event for a viewer of the page.
struct PageEvent {
    var bytes: [UInt8]
    /// The cursor of a viewer that has got the event: the number of the last change that this viewer knows.
    var nextCursor: Int
    /// The number of phones that the simulator reports.
    var phoneCount: Int
}

/// The viewers of the page, and what each of them has got.
///
/// If the stream of a slow viewer has no room for an event, the event is left out. The viewer's next event then also
/// has the changes of the event that was left out.
struct PageViewers<Stream> {
    private struct Viewer {
        var stream: Stream
        /// The number of the last change that the viewer has got; 0: none, so the next event has all phones. The
        /// simulator numbers the changes of its phones.
        var cursor = 0
    }

    private var viewers: [Viewer] = []
    private var phoneCount = 0

    var isEmpty: Bool { viewers.isEmpty }
    var streams: [Stream] { viewers.map(\.stream) }

    /// Adds viewers, whose streams get events from now on.
    mutating func add(_ streams: [Stream]) { viewers += streams.map { Viewer(stream: $0) } }

    mutating func removeAll(where hasEnded: (Stream) -> Bool) { viewers.removeAll { hasEnded($0.stream) } }

    /// Lets the next event of every viewer have all phones.
    private mutating func resetCursors() {
        for index in viewers.indices { viewers[index].cursor = 0 }
    }

    /// Forgets the phones, because everything that the viewers know is out of date.
    mutating func forgetPhones() {
        phoneCount = 0
        resetCursors()
    }

    /// Sends one event to each viewer. Viewers with the same cursor get the same event.
    ///
    /// If the number of phones has changed, the next event of every viewer has all phones, because the number decides
    /// which phones the page shows in full.
    ///
    /// - Parameters:
    ///   - makeEvent: makes the event with the changes since a cursor. Its second argument is the number of phones that
    ///     the viewers know.
    ///   - append: appends the bytes of an event to a stream. Returns false if the stream has no room.
    mutating func sendEvents(
        makeEvent: (_ cursor: Int, _ phoneCount: Int) -> PageEvent,
        append: (Stream, [UInt8]) -> Bool
    ) {
        var events: [Int: PageEvent] = [:]
        var hasPhoneCountChanged = false
        for index in viewers.indices {
            let cursor = viewers[index].cursor
            let event: PageEvent
            if let existingEvent = events[cursor] {
                event = existingEvent
            } else {
                event = makeEvent(cursor, phoneCount)
                events[cursor] = event
                if event.phoneCount != phoneCount { hasPhoneCountChanged = true }
                phoneCount = event.phoneCount
            }
            if append(viewers[index].stream, event.bytes) { viewers[index].cursor = event.nextCursor }
        }
        if hasPhoneCountChanged { resetCursors() }
    }
}
