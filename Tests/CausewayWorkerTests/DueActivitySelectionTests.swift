import Redis
import Testing

@testable import CausewayWorker

/// The keeper reads the timetable in batches of names. The tests show which due activities of a batch it claims. (R35)
@Suite struct DueActivitySelectionTests {
    private static let nowMilliseconds: Int64 = 1_790_000_000_000

    /// - Parameter batch: the names in the timetable. `{own=1}` is activity 1 of the app `own`, which the worker has.
    private static func dueActivities(_ batch: [String], from rank: Int, dueForMilliseconds: Int64 = 1)
        -> DueActivitySelection
    {
        let entries = batch.map {
            SharedRedisData.DueEntries.Entry(Array($0.utf8), dueWallMilliseconds: nowMilliseconds &- dueForMilliseconds)
        }
        return DueActivitySelection(
            SharedRedisData.DueEntries(
                nowWallMilliseconds: nowMilliseconds,
                timetableEntryCount: 100,
                entries: entries
            ),
            from: rank,
            dueEntriesPerReadMax: 4,
            claimsMax: 2,
            apps: [Array("own".utf8)],
            ageMillisecondsMax: 1_000
        )
    }

    private static func texts(_ due: DueActivitySelection) -> [String] {
        due.namesToClaim.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func `The next batch begins behind the activities of other apps`() {
        let full = Self.dueActivities(["{other=1}", "{own=1}", "{third=1}", "{other=2}"], from: 8)
        #expect(Self.texts(full) == ["{own=1}"])
        // A claimed activity moves to a later rank. So the next batch begins behind the three activities of
        // other apps, which keep their ranks.
        #expect(full.nextRank == 11)
        #expect(full.unknownApps == [Array("other".utf8), Array("third".utf8)])
        #expect(Self.dueActivities(["{other=1}", "{own=1}"], from: 8).nextRank == 0, "the last batch")
        #expect(Self.dueActivities([], from: 8).nextRank == 0)
    }

    @Test func `What one poll does not claim is in the next batch`() {
        let selection = Self.dueActivities(["{other=1}", "{own=1}", "{own=2}", "{own=3}"], from: 0)
        #expect(Self.texts(selection) == ["{own=1}", "{own=2}"])
        #expect(selection.nextRank == 1)
    }

    @Test func `A due time that another program has written does not overflow`() {
        #expect(
            Self.texts(Self.dueActivities(["{other=1}"], from: 0, dueForMilliseconds: Self.nowMilliseconds &- .min))
                == [
                    "{other=1}"
                ]
        )
    }

    @Test func `Activities of other apps that have been due for long, and names of no app, are claimed`() {
        #expect(Self.texts(Self.dueActivities(["{other=1}"], from: 0, dueForMilliseconds: 1_000)) == [])
        #expect(Self.texts(Self.dueActivities(["{other=1}"], from: 0, dueForMilliseconds: 1_001)) == ["{other=1}"])
        #expect(Self.texts(Self.dueActivities(["damaged"], from: 0)) == ["damaged"])
    }
}
