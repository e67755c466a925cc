import Delivery
import LiveActivity
import Testing

@testable import CausewayWorker

@Suite struct DeferredHeadersTests {
    private static let deferral = Deferral(
        sourceTopic: .commands,
        sourcePartition: 7,
        sourceOffset: 1 << 40,
        count: 3,
        recordTimestampMilliseconds: 1_790_000_000_001,
        receivedAtWallMilliseconds: 1_790_000_000_002,
        attemptCount: 4,
        earlierResultCount: 1,
        supersededCount: 12,
        registeredAtWallMilliseconds: 1_790_000_000_003,
        claim: .max,
        isHeldStart: true,
        isReread: true,
        carriedAlertVersion: Version(timestamp: 1_790_000_000, sequence: .max),
        priorityWithoutAlert: 5,
        wasAlertRemovedByAge: true,
        serviceFailureCount: 9,
        pauseEndWallMilliseconds: 1_790_000_300_000
    )

    @Test func `Headers keep what the next reading needs`() {
        let shortDeferral = Deferral(sourceTopic: .registrations, sourcePartition: 0, sourceOffset: 0, count: 1)
        for deferral in [Self.deferral, shortDeferral] {
            #expect(DeferredHeaders.parseDeferral(DeferredHeaders.makeStateText(of: deferral)) == deferral)
        }
    }

    /// A producer may give its record any time, for example in nanoseconds.
    @Test(arguments: [1_790_000_000_000_000_000, .max, .min])
    func `A record with any time is read again`(milliseconds: Int64) throws {
        var deferral = Self.deferral
        (deferral.recordTimestampMilliseconds, deferral.registeredAtWallMilliseconds) = (milliseconds, milliseconds)
        let readDeferral = try #require(DeferredHeaders.parseDeferral(DeferredHeaders.makeStateText(of: deferral)))
        #expect(
            readDeferral.receivedAtWallMilliseconds == deferral.receivedAtWallMilliseconds
                && readDeferral.claim == deferral.claim
        )
        #expect((readDeferral.recordTimestampMilliseconds < 0) == (milliseconds < 0))
    }

    /// Numbers that are too small or too large are refused too, because arithmetic with them could overflow.
    @Test func `Headers that no lane has written are refused`() {
        var numbers = DeferredHeaders.makeStateText(of: Self.deferral).split(separator: " ").map(String.init)
        #expect(DeferredHeaders.parseDeferral(numbers.dropLast().joined(separator: " ")) == nil)
        #expect(DeferredHeaders.parseDeferral("") == nil)
        for position in numbers.indices {
            let invalidTimestamps = position == Self.alertTimestampPosition ? ["0", "5"] : []
            for invalidNumber in ["", "x", "-2", "\(Int64.min)", "99999999999999999999"] + invalidTimestamps {
                let validNumber = numbers[position]
                numbers[position] = invalidNumber
                let readDeferral = DeferredHeaders.parseDeferral(numbers.joined(separator: " "))
                if position == Self.alertTimestampPosition, invalidNumber.hasPrefix("-") {
                    #expect(readDeferral?.carriedAlertVersion == nil)
                } else {
                    #expect(readDeferral == nil, "number \(position): \(invalidNumber)")
                }
                numbers[position] = validNumber
            }
        }
        numbers[0] = "\(RecordTopic.deferred.rawValue)"
        #expect(DeferredHeaders.parseDeferral(numbers.joined(separator: " ")) == nil)
    }

    /// The position of the alert's timestamp in the header. A negative timestamp means that there is no alert.
    private static let alertTimestampPosition = 12
}
