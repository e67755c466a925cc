import Testing

@testable import CausewayWorker

/// The metric of a provider token's age needs a value only while a pool uses the token: for a minute after a push, and
/// while a push waits.
struct ProviderTokenUseTests {
    @Test func `A token counts for a minute after a push`() {
        var use = ProviderTokenUse()
        use.notePushes(submittedPushCount: 0, hasUnfinishedPushes: false, issuedAtSeconds: 100, nowMilliseconds: 0)
        #expect(!use.isInUse(nowMilliseconds: 0), "a connection alone uses none")
        use.notePushes(submittedPushCount: 1, hasUnfinishedPushes: false, issuedAtSeconds: 100, nowMilliseconds: 1_000)
        #expect(use.isInUse(nowMilliseconds: 60_999) && use.issuedAtSeconds == 100)
        use.notePushes(submittedPushCount: 1, hasUnfinishedPushes: false, issuedAtSeconds: 100, nowMilliseconds: 61_000)
        #expect(!use.isInUse(nowMilliseconds: 61_000))
    }

    @Test func `A waiting push needs a token too`() {
        var use = ProviderTokenUse()
        use.notePushes(submittedPushCount: 1, hasUnfinishedPushes: false, issuedAtSeconds: 100, nowMilliseconds: 0)
        use.notePushes(
            submittedPushCount: 1,
            hasUnfinishedPushes: true,
            issuedAtSeconds: nil,
            nowMilliseconds: 3_600_000
        )
        #expect(use.isInUse(nowMilliseconds: 3_600_000))
        #expect(use.issuedAtSeconds == 100, "the last one there was")
    }
}
