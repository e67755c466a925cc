import LiveActivity

/// One command among the records that the user has chosen for the replay (``ReplayRange``).
struct ReplayCandidate: Equatable {
    var event: Event
    var version: Version
    /// The id of the audience, unescaped; nil for a command to an activity.
    var audience: [UInt8]?
    var partition: Int32
    var offset: Int64
    /// The record's timestamp in the topic.
    var timestampMilliseconds: Int64
    /// Whether the workers will still read the record themselves, because they have not committed it.
    var isUnread = false
    var key: [UInt8]?
    /// The record, without the fields that its policy drops from a body that is too large. Empty if the table had no
    /// room for it.
    var value: [UInt8]

    var byteCount: Int { value.count + (key?.count ?? 0) + (audience?.count ?? 0) }
}

/// The newest command of each activity and of each audience, found by rules like those for a lane's waiting commands:
///
/// - A newer update replaces an older update. A newer end replaces an older end, although Redis refuses the newer end
///   if the older one was shown.
/// - An end replaces any update, and no update replaces an end.
/// - A start replaces an older state. A newer update stays beside the start; a newer end replaces the start.
///
/// The table's bytes are limited (R4). A full table takes no more activities and audiences. If a newer command of a
/// known activity or audience has no room, the table keeps only the command's version and offset. The replay then sends
/// neither the newer command nor the older one.
struct NewestCommandTable {
    /// The commands that the table keeps of one activity or audience.
    struct Entry {
        var appIndex: Int
        var start: ReplayCandidate?
        var state: ReplayCandidate?

        var isOfAudience: Bool { (start ?? state)?.audience != nil }
    }

    /// Estimated bytes of an entry, without its commands and its key.
    static let entryOverheadBytes = 400

    let bytesMax: Int
    private(set) var usedBytes = 0
    /// The entries, by the activity's or audience's key in Redis.
    private(set) var entries: [[UInt8]: Entry] = [:]
    /// Whether the table had no room for a command.
    private(set) var hasLackedRoom = false

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Takes a command into the table. The command is left out if the table has a command that replaces it, or has no
    /// room for a further activity or audience.
    ///
    /// - Parameter onDropped: called once for each command that leaves the table or does not enter it, with the reason.
    mutating func insert(
        _ candidate: ReplayCandidate,
        of redisKey: [UInt8],
        appIndex: Int,
        onDropped: (ReplayReason) -> Void
    ) {
        guard var entry = entries[redisKey] else {
            guard usedBytes + Self.entryOverheadBytes + redisKey.count + candidate.byteCount <= bytesMax else {
                hasLackedRoom = true
                return onDropped(.tableFull)
            }
            usedBytes += Self.entryOverheadBytes + redisKey.count + candidate.byteCount
            var entry = Entry(appIndex: appIndex)
            if candidate.event == .start { entry.start = candidate } else { entry.state = candidate }
            entries[redisKey] = entry
            return
        }
        if candidate.event == .start {
            merge(start: candidate, into: &entry, onDropped)
        } else {
            merge(state: candidate, into: &entry, onDropped)
        }
        entries[redisKey] = entry
    }

    /// Marks a state of the table as unread, because the workers will read the same command from another topic. Does
    /// nothing if the table's state is another command.
    mutating func markStateAsUnread(_ command: ReplayCandidate, of redisKey: [UInt8]) {
        guard let state = entries[redisKey]?.state, state.event == command.event, state.version == command.version
        else { return }
        entries[redisKey]?.state?.isUnread = true
    }

    /// Keeps a start in the entry, unless the entry has the same start, a newer start, or an end that is not older.
    /// Drops a state that is older than the start.
    private mutating func merge(start: ReplayCandidate, into entry: inout Entry, _ onDropped: (ReplayReason) -> Void) {
        if let knownStart = entry.start {
            guard start.version > knownStart.version else {
                return onDropped(start.version == knownStart.version ? .duplicate : .supersededInRange)
            }
        }
        if let state = entry.state {
            if state.version < start.version {
                // The state belongs to the activity's life before this start.
                onDropped(.supersededInRange)
                replace(&entry.state, by: nil)
            } else if state.event == .end {
                return onDropped(.supersededInRange)
            }
        }
        if entry.start != nil { onDropped(.supersededInRange) }
        replace(&entry.start, by: start)
    }

    /// Keeps an update or an end in the entry, unless the entry has the same command or one that replaces it. An end
    /// also drops the start.
    private mutating func merge(state: ReplayCandidate, into entry: inout Entry, _ onDropped: (ReplayReason) -> Void) {
        if let start = entry.start, state.version < start.version { return onDropped(.supersededInRange) }
        if let knownState = entry.state {
            if knownState.event == .end, state.event == .update {
                return onDropped(state.version < knownState.version ? .supersededInRange : .ended)
            }
            if state.event == knownState.event {
                guard state.version > knownState.version else {
                    return onDropped(state.version == knownState.version ? .duplicate : .supersededInRange)
                }
            }
            onDropped(.supersededInRange)
        }
        replace(&entry.state, by: state)
        if state.event == .end, entry.start != nil {
            onDropped(.supersededInRange)
            replace(&entry.start, by: nil)
        }
    }

    /// Replaces one command of an entry; nil removes it. If the new command has no room, keeps it without its record.
    private mutating func replace(_ keptCandidate: inout ReplayCandidate?, by candidate: ReplayCandidate?) {
        usedBytes -= keptCandidate?.byteCount ?? 0
        keptCandidate = candidate
        guard let candidate else { return }
        guard usedBytes + candidate.byteCount > bytesMax else {
            usedBytes += candidate.byteCount
            return
        }
        hasLackedRoom = true
        keptCandidate?.value = []
        keptCandidate?.key = nil
        usedBytes += keptCandidate?.byteCount ?? 0
    }
}
