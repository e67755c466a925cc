import Testing

@testable import Delivery

/// How a worker corrects its wall clock by that of Redis.
struct ClockCorrectionTests {
    private static let now: Int64 = 1_790_000_000_000
    private static let bootMilliseconds: Int64 = 5_000_000

    /// Returns the correction after a reading.
    ///
    /// - Parameters:
    ///   - serversAheadMilliseconds: how far each server's clock is ahead of the machine's.
    ///   - machineSetForwardByMilliseconds: how far the machine's clock was set forward before the reading.
    private func makeCorrection(
        after correction: ClockCorrection = ClockCorrection(),
        serversAheadMilliseconds: [Int64],
        machineSetForwardByMilliseconds: Int64 = 0,
        durationMilliseconds: Int64 = 0
    ) -> ClockCorrection {
        let now = Self.now + machineSetForwardByMilliseconds
        var correction = correction
        correction.update(
            ClockCorrection.Reading(
                systemMilliseconds: now,
                bootMilliseconds: Self.bootMilliseconds,
                durationMilliseconds: durationMilliseconds,
                serverMilliseconds: serversAheadMilliseconds.map { now + durationMilliseconds / 2 + $0 }
            )
        )
        return correction
    }

    @Test(arguments: [-1_800_000, -660_000, -1_001, 1_001, 360_000, 1_800_000] as [Int64])
    func `A difference of more than a second, up to half an hour, is corrected`(milliseconds: Int64) {
        let correction = makeCorrection(serversAheadMilliseconds: [milliseconds])
        #expect(correction.addedMilliseconds == milliseconds && correction.differenceMilliseconds == milliseconds)
        #expect(correction.isClockWrong == (abs(milliseconds) > 60_000))
    }

    @Test(arguments: [-1_000, 0, 1_000] as [Int64])
    func `A difference of at most a second changes nothing`(milliseconds: Int64) {
        #expect(makeCorrection(serversAheadMilliseconds: [milliseconds]).addedMilliseconds == 0)
        let corrected = makeCorrection(serversAheadMilliseconds: [360_000])
        let correctedAgain = makeCorrection(after: corrected, serversAheadMilliseconds: [360_000 + milliseconds])
        #expect(correctedAgain.addedMilliseconds == 360_000)
    }

    /// Nobody knows which of the two clocks is wrong.
    @Test(arguments: [-1_800_001, 3_600_000] as [Int64])
    func `A difference of more than half an hour is only reported`(milliseconds: Int64) {
        let corrected = makeCorrection(serversAheadMilliseconds: [360_000])
        let correction = makeCorrection(after: corrected, serversAheadMilliseconds: [milliseconds])
        #expect(correction.addedMilliseconds == 0 && correction.bootOffsetMilliseconds == nil)
        #expect(correction.isClockWrong && correction.differenceMilliseconds == milliseconds)
    }

    @Test func `A clock that is repaired is no longer corrected`() {
        let corrected = makeCorrection(serversAheadMilliseconds: [-600_000])
        let repaired = makeCorrection(after: corrected, serversAheadMilliseconds: [40])
        #expect(repaired.addedMilliseconds == 0 && !repaired.isClockWrong)
    }

    /// The corrected time must stay right until the next reading, which may be hours later if Redis is away.
    @Test func `The corrected time does not depend on the machine's clock`() throws {
        let corrected = makeCorrection(serversAheadMilliseconds: [-360_000])
        let offset = try #require(corrected.bootOffsetMilliseconds)
        #expect(Self.bootMilliseconds + offset == Self.now - 360_000)
        // The machine's clock is repaired by half, and then wholly.
        let better = makeCorrection(
            after: corrected,
            serversAheadMilliseconds: [-180_000],
            machineSetForwardByMilliseconds: -180_000
        )
        #expect(better.bootOffsetMilliseconds == offset && better.addedMilliseconds == -180_000)
        let right = makeCorrection(
            after: better,
            serversAheadMilliseconds: [0],
            machineSetForwardByMilliseconds: -360_000
        )
        #expect(right.bootOffsetMilliseconds == offset && right.addedMilliseconds == 0)
    }

    /// A worker whose time is behind refuses commands for good, because their timestamps are in the future.
    @Test func `If the machine's clock was right and is set back, the worker's time stays right`() throws {
        let agreed = makeCorrection(serversAheadMilliseconds: [0])
        let offset = try #require(agreed.bootOffsetMilliseconds)
        #expect(Self.bootMilliseconds + offset == Self.now)
        let withoutReply = makeCorrection(
            after: agreed,
            serversAheadMilliseconds: [],
            machineSetForwardByMilliseconds: -360_000
        )
        let slow = makeCorrection(
            after: withoutReply,
            serversAheadMilliseconds: [360_000],
            machineSetForwardByMilliseconds: -360_000,
            durationMilliseconds: 2_002
        )
        for correction in [withoutReply, slow] {
            #expect(correction.bootOffsetMilliseconds == offset && correction.differenceMilliseconds == 0)
        }
        let read = makeCorrection(
            after: slow,
            serversAheadMilliseconds: [360_000],
            machineSetForwardByMilliseconds: -360_000
        )
        #expect(read.bootOffsetMilliseconds == offset && read.addedMilliseconds == 360_000)
        let serverSetBack = makeCorrection(after: agreed, serversAheadMilliseconds: [-420_000])
        let bothSetBack = makeCorrection(
            after: serverSetBack,
            serversAheadMilliseconds: [-90_000],
            machineSetForwardByMilliseconds: -330_000
        )
        #expect(bothSetBack.isServerClockSetBack && bothSetBack.bootOffsetMilliseconds == offset)
    }

    /// The virtual machine was paused for ten minutes, and NTP then corrects its clock. Or somebody sets the clock
    /// forward by mistake, and back again.
    @Test func `Without Redis, the worker follows a machine's clock that is set forward, unless it was wrong`() throws {
        let agreed = makeCorrection(serversAheadMilliseconds: [0])
        let offset = try #require(agreed.bootOffsetMilliseconds)
        let setForward = makeCorrection(
            after: agreed,
            serversAheadMilliseconds: [],
            machineSetForwardByMilliseconds: 600_000
        )
        #expect(setForward.bootOffsetMilliseconds == offset + 600_000)
        let setBackAgain = makeCorrection(after: setForward, serversAheadMilliseconds: [])
        #expect(setBackAgain.bootOffsetMilliseconds == offset)
        let corrected = makeCorrection(serversAheadMilliseconds: [-360_000])
        let correctedStill = makeCorrection(
            after: corrected,
            serversAheadMilliseconds: [],
            machineSetForwardByMilliseconds: 600_000
        )
        #expect(correctedStill == corrected)
    }

    /// After a failover, Redis' clock is that of another server.
    @Test(arguments: [-1_000, 1_000] as [Int64])
    func `A jump of either clock by at most a second does not change the worker's time`(milliseconds: Int64) throws {
        let agreed = makeCorrection(serversAheadMilliseconds: [0])
        let offset = try #require(agreed.bootOffsetMilliseconds)
        let failedOver = makeCorrection(after: agreed, serversAheadMilliseconds: [milliseconds])
        let machineSet = makeCorrection(
            after: agreed,
            serversAheadMilliseconds: [-milliseconds],
            machineSetForwardByMilliseconds: milliseconds
        )
        for correction in [failedOver, machineSet] {
            #expect(correction.bootOffsetMilliseconds == offset && correction.addedMilliseconds == 0)
        }
    }

    /// If all workers used Redis' time, all of them would refuse the newest commands for good.
    @Test(arguments: [-60_001, -600_000, -3_600_000] as [Int64])
    func `Workers do not follow a clock of Redis that was set back`(milliseconds: Int64) {
        for agreedMilliseconds in [0, -30_000] as [Int64] {
            let agreed = makeCorrection(serversAheadMilliseconds: [agreedMilliseconds])
            let serversAheadMilliseconds = [agreedMilliseconds + milliseconds]
            let setBack = makeCorrection(after: agreed, serversAheadMilliseconds: serversAheadMilliseconds)
            let setBackStill = makeCorrection(after: setBack, serversAheadMilliseconds: serversAheadMilliseconds)
            for correction in [setBack, setBackStill] {
                #expect(correction.isServerClockSetBack && correction.isClockWrong)
                #expect(correction.bootOffsetMilliseconds == agreed.bootOffsetMilliseconds)
            }
            let repaired = makeCorrection(after: setBackStill, serversAheadMilliseconds: [0])
            #expect(!repaired.isServerClockSetBack && repaired.addedMilliseconds == 0)
        }
    }

    /// The virtual machine was paused for 90 s after Redis' clock was set back. NTP then corrects the machine's clock.
    @Test func `Workers do not follow a clock of Redis that was set back, even if their own clock is then set`() {
        let agreed = makeCorrection(serversAheadMilliseconds: [0])
        let setBack = makeCorrection(after: agreed, serversAheadMilliseconds: [-420_000])
        let setForward = makeCorrection(
            after: setBack,
            serversAheadMilliseconds: [-420_000],
            machineSetForwardByMilliseconds: 90_000
        )
        #expect(setForward.isServerClockSetBack && setForward.addedMilliseconds == 0)
    }

    @Test func `Workers follow a clock of Redis that was set back and agrees with their own`() {
        let ahead = makeCorrection(serversAheadMilliseconds: [40_000])
        let setBack = makeCorrection(after: ahead, serversAheadMilliseconds: [-25_000])
        #expect(!setBack.isServerClockSetBack && setBack.addedMilliseconds == -25_000)
    }

    @Test func `The machine's clock is the wrong one if it was set, drifts, or stopped in a pause`() {
        let agreed = makeCorrection(serversAheadMilliseconds: [0])
        let setForward = makeCorrection(
            after: agreed,
            serversAheadMilliseconds: [-600_000],
            machineSetForwardByMilliseconds: 600_000
        )
        #expect(setForward.addedMilliseconds == -600_000 && !setForward.isServerClockSetBack)
        var drifting = agreed
        for seconds in Int64(1)...400 {
            drifting = makeCorrection(after: drifting, serversAheadMilliseconds: [-1_000 * seconds])
        }
        #expect(abs(drifting.addedMilliseconds + 400_000) <= 1_000 && !drifting.isServerClockSetBack)
        // A paused virtual machine.
        let paused = makeCorrection(after: agreed, serversAheadMilliseconds: [600_000])
        #expect(paused.addedMilliseconds == 600_000)
    }

    @Test func `A slow reading, or one without a reply, does not count`() {
        #expect(!makeCorrection(serversAheadMilliseconds: []).hasReading)
        let corrected = makeCorrection(serversAheadMilliseconds: [360_000], durationMilliseconds: 2_001)
        #expect(corrected.addedMilliseconds == 360_000 && corrected.hasReading)
        let unchanged = makeCorrection(after: corrected, serversAheadMilliseconds: [0], durationMilliseconds: 2_002)
        #expect(unchanged == corrected)
    }

    @Test(
        arguments: [([0, 360_000], 0), ([360_000, 0, 5_000], 5_000), ([-360_000, 0, 0, 360_000], 0)]
            as [([Int64], Int64)]
    )
    func `One wrong server of a cluster changes little`(servers: [Int64], expected: Int64) {
        #expect(makeCorrection(serversAheadMilliseconds: servers).addedMilliseconds == expected)
    }
}
