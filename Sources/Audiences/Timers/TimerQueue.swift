/// The times at which slots must be checked: a heap with the earliest entry first.
///
/// An entry is not removed when the time of its slot changes, because the slot does not know the entry's place in the
/// heap. So the reader must compare each entry with the time in its slot, and remove stale entries when the queue is
/// full. (R4)
struct TimerQueue: ~Copyable {
    /// The slot on which the core works when the entry is due.
    enum Owner: BitwiseCopyable, Hashable {
        case audience(AudienceIndex)
        case round(RoundIndex)
        case membershipChange(MembershipChangeIndex)
        case channel(ChannelIndex)
        /// The wait of a command for its channel.
        case channelWait(CommandIndex)
    }

    struct Entry: BitwiseCopyable {
        var dueMilliseconds: Int64
        var owner: Owner
    }

    private var entries: [Entry] = []
    let limit: Int

    init(limit: Int) { self.limit = limit }

    var isFull: Bool { entries.count == limit }

    var earliestDueMilliseconds: Int64? { entries.first?.dueMilliseconds }

    mutating func append(_ entry: Entry) {
        precondition(!isFull, "stale timers are removed first")
        entries.append(entry)
        var index = entries.count - 1
        while index > 0, case let parent = (index - 1) / 2,
            entries[index].dueMilliseconds < entries[parent].dueMilliseconds
        {
            entries.swapAt(index, parent)
            index = parent
        }
    }

    mutating func removeAll() -> [Entry] {
        defer { entries.removeAll(keepingCapacity: true) }
        return entries
    }

    mutating func popDue(now milliseconds: Int64) -> Entry? {
        guard let first = entries.first, first.dueMilliseconds <= milliseconds else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first }
        entries[0] = last
        var index = 0
        while true {
            var earliest = index
            for child in [2 * index + 1, 2 * index + 2] where child < entries.count {
                if entries[child].dueMilliseconds < entries[earliest].dueMilliseconds { earliest = child }
            }
            guard earliest != index else { return first }
            entries.swapAt(index, earliest)
            index = earliest
        }
    }
}
