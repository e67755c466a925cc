import LiveActivity
import Testing

@testable import Delivery

/// `Delivery` hands each command that addresses an audience or a channel over to `Audiences`. A command that comes back
/// with an outcome has a result, unless the command is read again and the outcome says nothing new. A dropped command
/// is left to the next owner of its partition.
@Suite struct AudienceCommandTests {
    private static func addressToAudience(_ command: String) -> String { CommandText.addressToAudience(command) }

    @Test func `A command to an audience is handed over, and has a result when it comes back`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.alert(1)))
        #expect(core.outstandingCalls.isEmpty)
        let record = try #require(core.takeHandover())
        #expect(core.takeHandover() == nil)
        let view = core.delivery.view(record)
        #expect(String(decoding: view.audience, as: UTF8.self) == "m")
        #expect(view.activity.isEmpty)
        #expect(view.version == Version(timestamp: CoreHarness.startSeconds + 1, sequence: 0))
        #expect(view.hasAlert && view.priority == 10 && view.priorityWithoutAlert == 5)
        #expect(view.event == .update)
        #expect(core.committableOffset == 0)
        core.endHandover(record, .outcome(.failed), reason: "redisFull", admittedAtWallMilliseconds: 5)
        #expect(core.committableOffset == 0)
        core.acknowledgeAll()
        let result = try #require(core.results.first)
        #expect((result.command, result.audience, result.activity) == ("u1", "m", ""))
        #expect((result.outcome, result.reason, result.admittedAtMilliseconds) == ("failed", "redisFull", 5))
        #expect(core.committableOffset == 1)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test(arguments: [true, false]) func `A command to an audience may request a channel`(requestsChannel: Bool) throws
    {
        let core = CoreHarness()
        core.receive(
            Self.addressToAudience(.update(1)).replacing(#""app""#, with: #""channel":\#(requestsChannel),"app""#)
        )
        let view = core.delivery.view(try #require(core.takeHandover()))
        #expect(view.requestsChannel == requestsChannel)
        var writer = JSONWriter()
        Array(CommandText.app.utf8).withUnsafeBytes { view.commandRecord(app: $0).write(to: &writer) }
        #expect(try Command.decode(writer.bytes).requestsChannel == requestsChannel)
    }

    @Test(arguments: [APNsEnvironment.sandbox, nil]) func `A command may name a channel`(environment: APNsEnvironment?)
        throws
    {
        let core = CoreHarness()
        let environmentMember = environment.map { #","environment":"\#($0.name)""# } ?? ""
        core.receive(
            CommandText.update(1).replacing(#""activity":"a""#, with: #""channel":"YWI\/"\#(environmentMember)"#)
        )
        let record = try #require(core.takeHandover())
        let view = core.delivery.view(record)
        #expect(String(decoding: view.channel, as: UTF8.self) == "YWI/")
        #expect(view.audience.isEmpty && view.activity.isEmpty && view.environment == environment ?? .production)
        var writer = JSONWriter()
        Array(CommandText.app.utf8).withUnsafeBytes { view.commandRecord(app: $0).write(to: &writer) }
        let decodedCommand = try Command.decode(writer.bytes)
        #expect(decodedCommand.channel.range.bytes(in: writer.bytes).elementsEqual("YWI/".utf8))
        #expect(decodedCommand.environment == environment ?? .production)
        core.endHandover(record, .outcome(.duplicate))
        core.acknowledgeAll()
        #expect(core.outcomes == ["u1 duplicate"])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test(arguments: Outcome.allCases.filter { !$0.effects.contains(.deadLetter) })
    func `Each outcome from Audiences becomes a result`(_ outcome: Outcome) throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.end(1)))
        core.endHandover(try #require(core.takeHandover()), .outcome(outcome))
        core.acknowledgeAll()
        #expect(core.outcomes == ["e1 \(outcome.name)"])
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A command that was fanned out is settled without a result`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1)), Self.addressToAudience(.update(2)))
        let (firstHandover, secondHandover) = (try #require(core.takeHandover()), try #require(core.takeHandover()))
        core.endHandover(secondHandover, .fannedOut)
        #expect(core.committableOffset == 0)
        core.endHandover(firstHandover, .fannedOut)
        #expect(core.results.isEmpty)
        #expect(core.committableOffset == 2)
        #expect(core.inProgressRecordCount == 0)
    }

    /// An activity and an audience with the same name are different.
    @Test func `A command to an activity does not replace one to an audience of the same name`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1)), .update(2, of: "m"))
        #expect(core.outstandingCalls == ["admit m.u2"])
        #expect(core.takeHandover() != nil)
    }

    @Test func `A start to an audience is written with its activity template`() throws {
        let core = CoreHarness()
        core.receive(CommandText.startOfAudience(1))
        let record = try #require(core.takeHandover())
        let view = core.delivery.view(record)
        #expect(String(decoding: view.activityTemplate, as: UTF8.self) == "m/{device}")
        #expect(view.device.isEmpty)
        #expect(view.expirationSeconds == CoreHarness.startSeconds + 601)
        var writer = JSONWriter()
        Array(CommandText.app.utf8).withUnsafeBytes { view.commandRecord(app: $0).write(to: &writer) }
        let decodedCommand = try Command.decode(writer.bytes)
        #expect(decodedCommand.event == .start && decodedCommand.version == view.version)
        #expect(decodedCommand.audience.range.bytes(in: writer.bytes).elementsEqual("m".utf8))
        #expect(decodedCommand.activity.range.bytes(in: writer.bytes).elementsEqual("m/{device}".utf8))
        #expect(decodedCommand.bodyByteCount == view.body.count)
    }

    @Test func `A command to an audience without an id is named by its topic, partition and offset`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1)).replacing(#""id":"u1","#, with: ""))
        let view = core.delivery.view(try #require(core.takeHandover()))
        #expect(String(decoding: view.commandIdentifier, as: UTF8.self) == "causeway.commands/0/0")
    }

    // MARK: - Revocation

    @Test func `A command that is not handed over yet is left to the next owner`() {
        let core = CoreHarness()
        let otherPartition = core.assign(.commands, number: 1)
        core.receive(Self.addressToAudience(.update(1)))
        core.receive(Self.addressToAudience(.update(2)), partition: otherPartition)
        core.beginRevoking(core.commandsPartition)
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.delivery.view(core.takeHandover() ?? .null).version.timestamp == CoreHarness.startSeconds + 2)
        #expect(core.takeHandover() == nil)
    }

    @Test func `After a revocation, a command that was handed over has an outcome or is dropped`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1)), Self.addressToAudience(.update(2)))
        let (firstHandover, secondHandover) = (try #require(core.takeHandover()), try #require(core.takeHandover()))
        core.beginRevoking(core.commandsPartition)
        #expect(
            core.delivery.isRevocationUnderWay(firstHandover)
                && core.delivery.isRevocationUnderWay(secondHandover)
        )
        core.endHandover(secondHandover, .dropped)
        #expect(!core.isDrained(core.commandsPartition))
        core.endHandover(firstHandover, .outcome(.unchanged))
        core.acknowledgeAll()
        #expect(core.isDrained(core.commandsPartition))
        #expect(core.committableOffset == 1)
        #expect(core.outcomes == ["u1 unchanged"])
    }

    @Test func `A command that comes back after its partition was lost settles nothing`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1)))
        let record = try #require(core.takeHandover())
        core.release(core.commandsPartition)
        _ = core.assign(.commands)
        #expect(core.delivery.isPartitionRevoked(record) && !core.delivery.isRevocationUnderWay(record))
        core.endHandover(record, .fannedOut)
        #expect(core.inProgressRecordCount == 0)
        #expect(core.committableOffset == nil)
    }

    /// The lane has read the record again, and the core of audiences now fans the command out for the new copy.
    @Test func `The old copy of a record that was read again is dropped as a duplicate`() throws {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1)))
        let oldCopy = try #require(core.takeHandover())
        core.release(core.commandsPartition)
        let partition = core.assign(.commands)
        core.receive(Self.addressToAudience(.update(1)), partition: partition)
        let newCopy = try #require(core.takeHandover())
        core.endHandover(oldCopy, .outcome(.duplicate))
        #expect(core.outcomes.isEmpty && core.inProgressRecordCount == 1)
        #expect(core.committableOffset(partition) == 0)
        core.endHandover(newCopy, .fannedOut)
        #expect(core.inProgressRecordCount == 0 && core.committableOffset(partition) == 1)
    }

    // MARK: - Reading ahead

    @Test func `A lane that reads ahead hands over no command until it has caught up`() throws {
        let core = CoreHarness { $0.reloadable.readAheadLagRecords = 100 }
        core.noteLag(101)
        core.receive(Self.addressToAudience(.update(1)))
        core.receive(Self.addressToAudience(.update(2)))
        core.elapse(1_000)
        #expect(core.takeHandover() == nil, "a newer command may still be unread")
        core.noteLag(0)
        #expect(core.takeHandover() != nil)
        #expect(core.takeHandover() != nil)
    }

    @Test func `A lane that reads ahead hands over its commands after the time limit`() throws {
        let core = CoreHarness { $0.reloadable.readAheadLagRecords = 100 }
        core.noteLag(1_000)
        core.receive(Self.addressToAudience(.update(1)))
        core.elapse(core.delivery.configuration.reloadable.readAheadMillisecondsMax)
        #expect(core.takeHandover() != nil)
    }

    // MARK: - After a loss of Redis

    @Test func `A command that is read again rings no alert and starts nothing`() throws {
        let core = CoreHarness()
        core.reread(below: 2)
        core.delivery.areAudienceMembersComplete = false
        core.receive(CommandText.startOfAudience(1), Self.addressToAudience(.alert(2)))
        core.elapse(3_600_000)
        #expect(core.takeHandover() == nil, "the registrations of its members have not been read again")
        core.delivery.areAudienceMembersComplete = true
        let record = try #require(core.takeHandover())
        #expect(!core.delivery.view(record).hasAlert)
        #expect(core.delivery.view(record).isReread)
        #expect(core.takeHandover() == nil)
        core.endHandover(record, .outcome(.unchanged))
        core.acknowledgeAll()
        #expect(core.results.isEmpty)
        #expect(core.committableOffset == 2)
    }

    @Test func `A new command does not wait behind a command that is read again`() throws {
        let core = CoreHarness()
        core.reread(below: 1)
        core.delivery.areAudienceMembersComplete = false
        core.receive(Self.addressToAudience(.alert(2)), Self.addressToAudience(.update(3)))
        let newerHandover = try #require(core.takeHandover())
        #expect(!core.delivery.view(newerHandover).isReread)
        #expect(core.takeHandover() == nil)
        core.delivery.areAudienceMembersComplete = true
        let olderHandover = try #require(core.takeHandover())
        #expect(core.delivery.view(olderHandover).isReread)
        core.endHandover(newerHandover, .fannedOut)
        core.endHandover(olderHandover, .outcome(.superseded))
        core.acknowledgeAll()
        #expect(core.committableOffset == 2)
    }

    /// The registrations of the members may be behind these commands in the inbox. While the lane is more than three
    /// quarters full, the commands do not wait: room for records in the first case, the ledger's span in the second.
    @Test(arguments: [true, false]) func `Commands that wait for their members do not fill the lane`(
        limitsRecords: Bool
    ) throws {
        let core = CoreHarness { if limitsRecords { $0.recordsMax = 64 } else { $0.ledgerSpanOffsetCount = 64 } }
        core.reread(below: 1_000)
        core.delivery.areAudienceMembersComplete = false
        var handoverCounts: [Int] = []
        for second in 1...128 as ClosedRange<Int64> {
            try #require(core.canReceive && core.hasRoom(for: second - 1, partition: core.commandsPartition))
            core.receive(Self.addressToAudience(.update(second)))
            core.elapse(1)
            var handoverCount = 0
            while let record = core.takeHandover() {
                core.endHandover(record, .outcome(.superseded))
                handoverCount += 1
            }
            if handoverCount > 0 { handoverCounts.append(handoverCount) }
            core.acknowledgeAll()
        }
        #expect(handoverCounts == [49, 49])
        #expect(core.inProgressRecordCount == 30, "the lane has room again, so they wait for the members")
    }

    @Test func `A command that waits until its members are read again is dropped with its partition`() {
        let core = CoreHarness()
        core.reread(below: 1)
        core.delivery.areAudienceMembersComplete = false
        core.receive(Self.addressToAudience(.alert(2)))
        core.release(core.commandsPartition)
        core.delivery.areAudienceMembersComplete = true
        #expect(core.takeHandover() == nil)
        #expect(core.inProgressRecordCount == 0)
    }

    @Test func `A command to an audience with an unknown policy is invalid`() {
        let core = CoreHarness()
        core.receive(Self.addressToAudience(.update(1, beside: #""policy":"none","#)))
        #expect(core.takeHandover() == nil)
        #expect(core.outcomes == ["u1 invalid"])
    }
}
