import Testing

@testable import CausewayWorker

/// ``Reconciliation`` compares APNs' list of channels with the registry, and decides which channels to delete. The
/// tests need neither APNs nor Redis.
struct ReconciliationTests {
    private static let nowMilliseconds: Int64 = 1_790_000_000_000

    private static func entry(_ audience: String, _ channel: String, ageSeconds: Int64 = 3_600) -> ChannelEntry {
        var entry = ChannelEntry(
            app: "com.example.match",
            environment: "production",
            audience: audience,
            channel: channel,
            storage: .newest,
            createdAtWallMilliseconds: nowMilliseconds - ageSeconds * 1_000
        )
        entry.isPublished = true
        return entry
    }

    private static func intent(_ number: Int) -> ChannelCreationIntent {
        ChannelCreationIntent(
            identifier: "\(number)",
            audience: "m\(number)",
            createdAtWallMilliseconds: nowMilliseconds - 600_000,
            worker: "host/1"
        )
    }

    private func makeReconciliation(
        listed: [String],
        entries: [ChannelEntry] = [],
        intents: [ChannelCreationIntent] = [],
        foreign: Set<String> = [],
        unreadable: [UnreadableChannelEntry] = [],
        isCreationUnderWay: Bool = false,
        deletesUnknownChannels: Bool = false
    ) -> Reconciliation {
        var content = Reconciliation.RegistryContent()
        (content.entries, content.intents, content.foreignChannels) = (entries, intents, foreign)
        content.unreadableEntries = unreadable
        return Reconciliation(
            listedChannels: listed,
            listedAtWallMilliseconds: Self.nowMilliseconds,
            content: content,
            isUnderWay: { _ in isCreationUnderWay },
            deletesUnknownChannels: deletesUnknownChannels,
            nowWallMilliseconds: Self.nowMilliseconds
        )
    }

    @Test func `A channel that APNs and Redis both know is kept`() {
        var emptyReconciliation = makeReconciliation(listed: [])
        #expect(
            emptyReconciliation
                == makeReconciliation(listed: ["a", "b"], entries: [Self.entry("x", "a"), Self.entry("y", "b")])
        )
        emptyReconciliation.possiblyForeignChannels = ["z"]
        #expect(emptyReconciliation == makeReconciliation(listed: ["z"], foreign: ["z"]))
    }

    @Test func `A channel of an interrupted attempt is an orphan`() {
        let reconciliation = makeReconciliation(
            listed: ["a", "o"],
            entries: [Self.entry("x", "a")],
            intents: [Self.intent(1)]
        )
        #expect(
            reconciliation.channelsToDelete == ["o"] && reconciliation.resolvedIntents == [Self.intent(1)]
                && reconciliation.possiblyForeignChannels.isEmpty
                && !reconciliation.mayHaveCreationUnderWay
        )
    }

    /// Each of the listed channels `o` and `z` may be the channel of the entry that cannot be read.
    @Test(arguments: [true, false])
    func `Nothing is decided about unknown channels while an entry's channel cannot be read`(
        deletesUnknownChannels: Bool
    ) {
        let reconciliation = makeReconciliation(
            listed: ["o", "z"],
            entries: [Self.entry("x", "lost")],
            intents: [Self.intent(1)],
            foreign: ["z"],
            unreadable: [UnreadableChannelEntry(audience: "y", channel: nil)],
            deletesUnknownChannels: deletesUnknownChannels
        )
        #expect(reconciliation.hasUnreadableChannel && reconciliation.resolvedIntents.isEmpty)
        #expect(reconciliation.channelsToDelete.isEmpty && reconciliation.newForeignChannels.isEmpty)
        #expect(reconciliation.possiblyForeignChannels == ["z"])
        // Entries whose channel can be read are still compared with APNs' list.
        #expect(reconciliation.lostEntries == [Self.entry("x", "lost")])
    }

    @Test func `The channel of an unreadable entry is ours if it can be read`() {
        let reconciliation = makeReconciliation(
            listed: ["a", "o"],
            intents: [Self.intent(1)],
            foreign: ["a"],
            unreadable: [UnreadableChannelEntry(audience: "x", channel: "a")],
            deletesUnknownChannels: true
        )
        #expect(reconciliation.channelsToDelete == ["o"] && reconciliation.ownChannelsRecordedAsForeign == ["a"])
        #expect(!reconciliation.hasUnreadableChannel && reconciliation.lostEntries.isEmpty)
    }

    @Test func `An attempt that created no channel is resolved`() {
        let reconciliation = makeReconciliation(
            listed: ["a"],
            entries: [Self.entry("x", "a")],
            intents: [Self.intent(1), Self.intent(2)]
        )
        #expect(reconciliation.channelsToDelete.isEmpty && reconciliation.resolvedIntents.count == 2)
    }

    @Test func `A young attempt is not resolved, because APNs may still carry it out`() {
        var youngIntent = Self.intent(2)
        youngIntent.createdAtWallMilliseconds =
            Self.nowMilliseconds - Reconciliation.apnsCreationDurationMillisecondsMax + 1
        #expect(
            makeReconciliation(listed: [], intents: [Self.intent(1), youngIntent]).resolvedIntents == [Self.intent(1)]
        )
        // APNs lists the channel of the young attempt, so APNs has carried out the request.
        #expect(makeReconciliation(listed: ["o"], intents: [youngIntent]).resolvedIntents == [youngIntent])
    }

    /// After `restrictToIntents()` a comparison no longer reports entries, but still deletes orphans.
    @Test func `A comparison for intents leaves the entries unchanged`() {
        var comparison = makeReconciliation(
            listed: ["o"],
            entries: [Self.entry("x", "a")],
            intents: [Self.intent(1)]
        )
        #expect(comparison.lostEntries.map(\.channel) == ["a"])
        comparison.restrictToIntents()
        #expect(comparison.lostEntries.isEmpty && comparison.channelsToDelete == ["o"])
    }

    /// The outcome of two creations is unknown. APNs lists three unknown channels. At most two of them are ours, but
    /// the worker cannot know which ones. So it keeps all three. Only an operator can have them deleted.
    @Test func `More unknown channels than attempts are reported and kept`() {
        let intents = [Self.intent(1), Self.intent(2)]
        let keepingReconciliation = makeReconciliation(listed: ["o", "p", "q"], intents: intents)
        #expect(
            keepingReconciliation.channelsToDelete.isEmpty
                && keepingReconciliation.possiblyForeignChannels == ["o", "p", "q"]
        )
        #expect(keepingReconciliation.resolvedIntents.isEmpty && keepingReconciliation.newForeignChannels.isEmpty)
        let deletingReconciliation = makeReconciliation(
            listed: ["o", "p", "q"],
            intents: intents,
            deletesUnknownChannels: true
        )
        #expect(
            deletingReconciliation.channelsToDelete == ["o", "p", "q"]
                && deletingReconciliation.resolvedIntents == intents
                && deletingReconciliation.possiblyForeignChannels.isEmpty
        )
    }

    @Test func `Unknown channels without an attempt belong to others`() {
        let firstReconciliation = makeReconciliation(listed: ["z"])
        #expect(
            firstReconciliation.newForeignChannels == ["z"] && firstReconciliation.possiblyForeignChannels == ["z"]
                && firstReconciliation.channelsToDelete.isEmpty
        )
        // A channel that was once found foreign never counts as ours. Only an operator can have the channel deleted.
        let laterReconciliation = makeReconciliation(listed: ["z", "o"], intents: [Self.intent(1)], foreign: ["z"])
        #expect(laterReconciliation.channelsToDelete == ["o"] && laterReconciliation.possiblyForeignChannels == ["z"])
        #expect(
            makeReconciliation(listed: ["z"], foreign: ["z"], deletesUnknownChannels: true).channelsToDelete == ["z"]
        )
    }

    @Test func `A foreign channel that APNs does not list is missing`() {
        var reconciliation = makeReconciliation(
            listed: ["z"],
            entries: [Self.entry("x", "a")],
            foreign: ["a", "y", "z"]
        )
        #expect(reconciliation.missingForeignChannels == ["y"] && reconciliation.possiblyForeignChannels == ["z"])
        reconciliation.restrictToIntents()
        #expect(reconciliation.missingForeignChannels.isEmpty)
    }

    @Test func `No unknown channel is touched while one is being created`() {
        let reconciliation = makeReconciliation(listed: ["o"], intents: [Self.intent(1)], isCreationUnderWay: true)
        #expect(
            reconciliation.mayHaveCreationUnderWay && reconciliation.channelsToDelete.isEmpty
                && reconciliation.resolvedIntents.isEmpty
                && reconciliation.newForeignChannels.isEmpty
        )
    }

    @Test func `An intent needs a comparison that is at least a minute newer`() {
        var content = Reconciliation.RegistryContent()
        content.intents = [Self.intent(1)]
        let createdAtWallMilliseconds = Self.intent(1).createdAtWallMilliseconds
        #expect(!content.hasUncomparedIntent(nowWallMilliseconds: createdAtWallMilliseconds + 59_999))
        #expect(content.hasUncomparedIntent(nowWallMilliseconds: createdAtWallMilliseconds + 60_000))
        content.reconciledAtWallMilliseconds = createdAtWallMilliseconds + 59_999
        #expect(content.hasUncomparedIntent(nowWallMilliseconds: Self.nowMilliseconds))
        content.reconciledAtWallMilliseconds = createdAtWallMilliseconds + 60_000
        #expect(!content.hasUncomparedIntent(nowWallMilliseconds: Self.nowMilliseconds))
        content.reconciledAtWallMilliseconds = .min
        #expect(
            !content.hasUncomparedIntent(nowWallMilliseconds: Self.nowMilliseconds),
            "a time that no worker has written"
        )
        (content.intents, content.reconciledAtWallMilliseconds) = ([], nil)
        #expect(!content.hasUncomparedIntent(nowWallMilliseconds: Self.nowMilliseconds))
    }

    @Test func `A channel that APNs does not list is lost, but one that was just created is not`() {
        let oldEntry = Self.entry("x", "a")
        #expect(makeReconciliation(listed: [], entries: [oldEntry]).lostEntries == [oldEntry])
        #expect(makeReconciliation(listed: [], entries: [Self.entry("x", "a", ageSeconds: 30)]).lostEntries.isEmpty)
    }

    @Test func `A due channel is deleted whether or not APNs lists it`() {
        var dueEntry = Self.entry("x", "a")
        dueEntry.deletionDueWallMilliseconds = Self.nowMilliseconds
        var laterEntry = Self.entry("y", "b")
        laterEntry.deletionDueWallMilliseconds = Self.nowMilliseconds + 1
        var deletingEntry = Self.entry("z", "c")
        deletingEntry.state = .deleting
        let reconciliation = makeReconciliation(listed: ["a", "b"], entries: [dueEntry, laterEntry, deletingEntry])
        #expect(reconciliation.entriesToDelete == [dueEntry, deletingEntry] && reconciliation.lostEntries.isEmpty)
    }

    @Test func `A channel that is missing in the topic is published`() {
        var entry = Self.entry("x", "a")
        entry.isPublished = nil
        #expect(makeReconciliation(listed: ["a"], entries: [entry]).unpublishedEntries == [entry])
    }

    @Test func `Entries are read as they were written`() throws {
        var entry = Self.entry("match/42", "a+b/c==")
        entry.deletionDueWallMilliseconds = 17
        #expect(ChannelEntry(json: entry.json) == entry)
        let text = String(decoding: entry.recordValue, as: UTF8.self)
        #expect(
            text
                == #"{"app":"com.example.match","audience":"match/42","channel":"a+b/c==","createdAt":1789996400000,"#
                + #""deleteAfter":17,"environment":"production","state":"active","storage":"newest"}"#
        )
        #expect(entry.recordKey == "com.example.match/production/match/42")
        #expect(ChannelEntry(json: Array("{}".utf8)) == nil)
        // The first byte is 1 for the storage `newest`. The next eight bytes are the time of the creation.
        #expect(entry.channelFieldValue.prefix(9) == [1, 0x80, 0x7D, 0x19, 0xC4, 0xA0, 0x01, 0, 0])
        #expect(entry.channelFieldValue.dropFirst(9).elementsEqual("a+b/c==".utf8))
    }
}
