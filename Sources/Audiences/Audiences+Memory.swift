import Delivery
import LiveActivity

/// Says how much memory this core's tables need, for the worker's memory budget. (R4)
extension Audiences {
    // Each public number below is what one element of a full table needs: its slot, its bytes on the heap, and its
    // places in other tables and queues.

    /// The memory of one command, and of its audience. The bytes of the command's texts and bodies are not included
    /// (``AudiencesConfiguration/commandBytesMax``).
    public static var bytesPerCommand: Int {
        Slab<CommandSlot>.strideBytes + Slab<AudienceSlot>.strideBytes + heapBytes(Limits.identifierBytesMax)
            + bytesPerDictionaryEntry + queueBytes(of: AudienceIndex.self, placeCount: 2)
            + queueBytes(of: ReturnedCommand.self, placeCount: 2)
            + sampledSegments.count * bytesPerStoreCall + 2 * bytesPerTimer
    }

    /// The memory that is planned for one fan-out record, without its body and texts
    /// (``AudiencesConfiguration/fanoutRecordBytesMax``).
    ///
    /// This includes a slot of a range version and one of a broadcast, because no table ever shrinks: each of the two
    /// tables may once have held all records. It also includes two rounds and two channels with the longest ids,
    /// because their tables have twice as many slots as there may be records.
    public static var bytesPerFanoutRecord: Int {
        let bytesPerRoundOrChannel =
            heapBytes(Limits.identifierBytesMax) + dictionaryEntryBytes(keyBytes: MemoryLayout<RoundKey>.stride)
            + bytesPerTimer
        return Slab<RangeVersionSlot>.strideBytes + Slab<BroadcastSlot>.strideBytes
            + 2 * (Slab<RoundSlot>.strideBytes + Slab<ChannelSlot>.strideBytes + 2 * bytesPerRoundOrChannel)
            + 6 * bytesPerStoreCall + queueBytes(of: OutgoingAudienceRecord.self, placeCount: 4)
    }

    public static var bytesPerParkedMember: Int { Slab<ParkedMember>.strideBytes }

    /// The memory of one refused member: its slot, its result, its invalidation and its calls to the stores.
    public static var bytesPerRefusedMember: Int {
        Slab<RefusedMemberSlot>.strideBytes + queueBytes(of: OutgoingAudienceRecord.self, placeCount: 2)
            + 2 * bytesPerStoreCall
    }

    /// The memory of one change of a member's audiences, and of its request for an audience's newest state. The bodies
    /// of the states are not included (``AudiencesConfiguration/newestStateBytesMax``).
    public static var bytesPerMembershipChange: Int {
        let packedBytes =
            Limits.identifierBytesMax + Limits.tokenDigitsMax + audiencesPerChangeMax * AudienceList.digestBytes
        return Slab<MembershipChangeSlot>.strideBytes + heapBytes(packedBytes) + Slab<NewestStateRequest>.strideBytes
            + Slab<NewestStateSlot>.strideBytes + 2 * bytesPerDictionaryEntry
            + queueBytes(of: ChangingMember.self, placeCount: 2) + 2 * bytesPerStoreCall + bytesPerTimer
    }
    /// The maximum number of audiences of one change: eight that a registration names, and sixteen that the member has
    /// left (`StoreLimits.unconfirmedDeparturesMax`).
    private static var audiencesPerChangeMax: Int { 3 * Limits.audiencesPerRegistrationMax }

    /// The bytes that this many places take in a queue (`IndexQueue`) or an array. Each place counts twice: the number
    /// of places of a queue is rounded up to a power of two, and an array grows by doubling.
    private static func queueBytes<Element>(of _: Element.Type, placeCount: Int) -> Int {
        2 * placeCount * MemoryLayout<Element>.stride
    }

    /// The memory of one call to the store: its place in the queue, and perhaps a place among the calls that are set
    /// aside (`StoreQueue`).
    private static var bytesPerStoreCall: Int { queueBytes(of: AudienceTicket.self, placeCount: 2) }
    /// The memory of the timers of one slot. The queue may have two of them: the current one, and an obsolete one that
    /// is not removed yet.
    private static var bytesPerTimer: Int { queueBytes(of: TimerQueue.Timer.self, placeCount: 2) }
    /// The memory of one entry of a dictionary. Its key has 16 bytes, as most keys have.
    private static var bytesPerDictionaryEntry: Int { dictionaryEntryBytes(keyBytes: 16) }
    /// The memory of an entry of a dictionary: its key, and an index of 4 bytes. A dictionary that has just doubled is
    /// only three eighths full. The result is rounded up.
    private static func dictionaryEntryBytes(keyBytes: Int) -> Int { (keyBytes + 4) * 8 / 3 + 1 }
    /// The bytes of a block on the heap, with the 16 bytes that the allocator may add.
    private static func heapBytes(_ byteCount: Int) -> Int { byteCount + 16 }

    /// The memory of the tables of commands, parked members, refused members, membership changes and newest states, if
    /// all of them are full.
    public static func tableBytes(_ configuration: AudiencesConfiguration) -> Int {
        configuration.commandsMax * bytesPerCommand + configuration.commandBytesMax
            + configuration.parkedMembersMax * bytesPerParkedMember
            + configuration.refusedMembersMax * bytesPerRefusedMember
            + configuration.membershipChangesMax * bytesPerMembershipChange + configuration.newestStateBytesMax
    }
}

extension AudiencesConfiguration {
    /// Lowers the limits of the tables that ``Audiences/tableBytes(_:)`` counts, until these tables need at most
    /// `byteCount` bytes when they are full. If they fit already, the limits stay as they are.
    ///
    /// All limits shrink in the same proportion, but ``parkedMembersMax`` never below ``parkedMembersMin``, and no
    /// limit below 1. With these lowest limits, the tables may still need more than `byteCount`.
    public mutating func limitTableBytes(to byteCount: Int) {
        let parkedMemberBytesMin = Self.parkedMembersMin * Audiences.bytesPerParkedMember
        let neededBytes = Audiences.tableBytes(self)
        guard byteCount < neededBytes else { return }
        let shrinkFactor = Double(max(0, byteCount - parkedMemberBytesMin)) / Double(neededBytes - parkedMemberBytesMin)
        func lowered(_ limit: Int) -> Int { max(1, Int(Double(limit) * shrinkFactor)) }
        commandsMax = lowered(commandsMax)
        commandBytesMax = lowered(commandBytesMax)
        parkedMembersMax = Self.parkedMembersMin + lowered(max(0, parkedMembersMax - Self.parkedMembersMin))
        refusedMembersMax = lowered(refusedMembersMax)
        membershipChangesMax = lowered(membershipChangesMax)
        newestStateBytesMax = lowered(newestStateBytesMax)
    }

    /// The memory of the tables that ``Audiences/tableBytes(_:)`` counts, if every limit has its default value.
    public static var defaultTableBytes: Int {
        // The size of these tables does not depend on the apps and the policies, so there are none here.
        Audiences.tableBytes(AudiencesConfiguration(apps: [], reloadable: ReloadableSettings(appCount: 0), seed: 0))
    }
}
