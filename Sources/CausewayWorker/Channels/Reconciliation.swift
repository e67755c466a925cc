/// What is to be done about the difference between the channels that APNs lists and those that are known. Values in, actions out.
///
/// The list is asked for first, then what is known is read at one moment: whatever was created meanwhile has an entry or an intent.
package struct Reconciliation: Equatable, Sendable {
    /// What is known of the channels of one app in one environment, at one moment.
    package struct Known: Equatable, Sendable {
        package var entries: [ChannelEntry] = []
        package var intents: [ChannelIntent] = []
        /// Channels that were there before any of ours that is unresolved: others made them.
        package var foreign: Set<String> = []
        /// When APNs' list was last held against all this, UNIX milliseconds; nil: never.
        package var reconciledAt: Int64?

        package init() {}
    }

    /// Others' channels, and the ones that cannot be told from others'.
    package var unknown: [String] = []
    /// Of an attempt of ours that was never resolved: to be deleted.
    package var orphans: [String] = []
    /// Seen for the first time, and not ours.
    package var newlyForeign: [String] = []
    /// Known, and gone from APNs: to be created again.
    package var lost: [ChannelEntry] = []
    /// Not in the topic yet.
    package var unpublished: [ChannelEntry] = []
    /// Their time is over, or their deletion was begun.
    package var due: [ChannelEntry] = []
    /// Nothing is left of them.
    package var resolved: [ChannelIntent] = []
    /// Attempts are under way: what is unknown may be theirs, and is left for a later look.
    package var isEarly = false

    /// An entry that is younger than the list by less than this is not missed in it: the clocks of workers differ.
    static let clockMilliseconds: Int64 = 60_000

    /// - Parameters:
    ///   - listedAtMilliseconds: when the list was asked for.
    ///   - isUnderWay: whether the attempt of an intent may still be going on.
    ///   - deletesUnknown: what cannot be told from others' channels, and others' channels themselves, are to be deleted too.
    package init(
        listed: [String],
        listedAtMilliseconds: Int64,
        known: Known,
        isUnderWay: (ChannelIntent) -> Bool,
        deletesUnknown: Bool,
        nowMilliseconds: Int64
    ) {
        let there = Set(listed)
        for entry in known.entries {
            let isDue = entry.state == .deleting || entry.deleteAfter.map { $0 <= nowMilliseconds } == true
            if isDue {
                due.append(entry)
            } else if !there.contains(entry.channel) {
                if entry.createdAt < listedAtMilliseconds - Self.clockMilliseconds { lost.append(entry) }
            } else if entry.isPublished != true {
                unpublished.append(entry)
            }
        }
        let own = Set(known.entries.map(\.channel))
        let strange = listed.filter { !own.contains($0) && !known.foreign.contains($0) }
        unknown = listed.filter { !own.contains($0) && known.foreign.contains($0) }
        if deletesUnknown {
            orphans = unknown
            unknown = []
        }
        guard !known.intents.contains(where: isUnderWay) else {
            isEarly = true
            return
        }
        if strange.count <= known.intents.count || deletesUnknown {
            orphans += strange
            resolved = known.intents
        } else {
            // Without an attempt of ours that is open they are others'; with one, nobody can tell which.
            unknown += strange
            if known.intents.isEmpty { newlyForeign = strange }
        }
    }
}
