import LiveActivity
import Testing

@testable import causeway

@Suite("The newest commands of a range")
struct NewestCommandTableTests {
    private static let activity = Array("{app=a}".utf8)

    private func candidate(_ event: Event, _ timestamp: Int64, bytes: Int = 10) -> ReplayCandidate {
        ReplayCandidate(
            event: event,
            version: Version(timestamp: timestamp, sequence: 0),
            partition: 0,
            offset: timestamp,
            timestampMilliseconds: timestamp,
            value: [UInt8](repeating: 7, count: bytes)
        )
    }

    /// Returns the commands that remain after merging, and why the others were dropped.
    private func merge(_ commands: [(event: Event, timestamp: Int64)]) -> (
        start: Int64?, state: Int64?, dropReasons: [ReplayReason]
    ) {
        var table = NewestCommandTable(bytesMax: 1 << 20)
        var dropReasons: [ReplayReason] = []
        for (event, timestamp) in commands {
            table.insert(candidate(event, timestamp), of: Self.activity, appIndex: 0) { dropReasons.append($0) }
        }
        let entry = table.entries[Self.activity]
        #expect(dropReasons.count + (entry?.start == nil ? 0 : 1) + (entry?.state == nil ? 0 : 1) == commands.count)
        return (entry?.start?.version.timestamp, entry?.state?.version.timestamp, dropReasons)
    }

    @Test func `The newest state is kept, in any order of arrival`() {
        #expect(
            merge([(.update, 1), (.update, 3), (.update, 2)]) == (nil, 3, [.supersededInRange, .supersededInRange])
        )
        #expect(merge([(.update, 1), (.update, 1)]) == (nil, 1, [.duplicate]))
    }

    @Test func `No update replaces an end, and an end replaces any update`() {
        #expect(merge([(.update, 5), (.end, 3)]) == (nil, 3, [.supersededInRange]))
        #expect(merge([(.end, 3), (.update, 5)]) == (nil, 3, [.ended]))
        #expect(merge([(.end, 3), (.update, 2)]) == (nil, 3, [.supersededInRange]))
        #expect(merge([(.end, 3), (.end, 3)]) == (nil, 3, [.duplicate]))
        #expect(merge([(.end, 3), (.end, 4)]) == (nil, 4, [.supersededInRange]))
        #expect(merge([(.end, 4), (.end, 3)]) == (nil, 4, [.supersededInRange]))
    }

    @Test func `A start stays beside its newest state, is replaced by its end, and begins another life`() {
        #expect(merge([(.start, 1), (.update, 2), (.update, 3)]) == (1, 3, [.supersededInRange]))
        #expect(merge([(.start, 1), (.end, 2)]) == (nil, 2, [.supersededInRange]))
        #expect(merge([(.end, 2), (.start, 1)]) == (nil, 2, [.supersededInRange]))
        #expect(merge([(.end, 2), (.start, 3)]) == (3, nil, [.supersededInRange]))
        #expect(merge([(.update, 2), (.start, 1)]) == (1, 2, []))
        #expect(merge([(.start, 3), (.update, 2)]) == (3, nil, [.supersededInRange]))
        #expect(merge([(.start, 3), (.start, 3), (.start, 4)]) == (4, nil, [.duplicate, .supersededInRange]))
    }

    @Test func `A full table leaves out new activities, and keeps only the version of a larger newer command`() {
        var table = NewestCommandTable(bytesMax: 2 * (NewestCommandTable.entryOverheadBytes + 7 + 100))
        var dropReasons: [ReplayReason] = []
        for name in ["{app=a}", "{app=b}", "{app=c}"] {
            table.insert(candidate(.update, 1, bytes: 100), of: Array(name.utf8), appIndex: 0) {
                dropReasons.append($0)
            }
        }
        #expect(dropReasons == [.tableFull] && table.hasLackedRoom && table.entries.count == 2)
        #expect(table.usedBytes == table.bytesMax)
        table.insert(candidate(.update, 2, bytes: 100), of: Self.activity, appIndex: 0) { dropReasons.append($0) }
        #expect(table.entries[Self.activity]?.state?.value.count == 100, "a record of the same size still fits")
        table.insert(candidate(.update, 3, bytes: 101), of: Self.activity, appIndex: 0) { dropReasons.append($0) }
        #expect(table.entries[Self.activity]?.state?.version.timestamp == 3)
        #expect(table.entries[Self.activity]?.state?.value.isEmpty == true)
        #expect(table.usedBytes == table.bytesMax - 100)
    }

    /// If the table has no room for a newer command's record, it keeps the command's version and audience. The bytes of
    /// the audience must still count.
    @Test func `The audience of a command that does not fit still counts`() {
        var table = NewestCommandTable(bytesMax: NewestCommandTable.entryOverheadBytes + 7 + 100)
        var tooLargeCommand = candidate(.update, 2, bytes: 200)
        tooLargeCommand.audience = [1, 2, 3]
        for command in [candidate(.update, 1, bytes: 100), tooLargeCommand, candidate(.update, 3, bytes: 50)] {
            table.insert(command, of: Self.activity, appIndex: 0) { _ in }
        }
        #expect(table.hasLackedRoom && table.usedBytes == table.bytesMax - 50)
    }
}
