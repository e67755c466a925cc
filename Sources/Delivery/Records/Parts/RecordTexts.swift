/// The texts of a record. They are copied into one block when the record is decoded or rejected, and stay until the
/// slot is freed. A text that the record does not have is empty.
struct RecordTexts: BitwiseCopyable {
    /// The bytes of all texts, also those of `RecordRegistration`, `RecordAudienceCommand` and `RecordDeadLetter`.
    var block = Arena.Block.none
    /// The id of the activity, audience or channel that the record is about. For a tombstone: the record's key, which
    /// may also be the id of a device.
    var subject = BlockRange()
    /// The device that a start or a registration names. For a tombstone: empty, until its calls concern the device and
    /// the attributes type that its key names (`Delivery.selectAttributesType`).
    var device = BlockRange()
    var attributesType = BlockRange()
    /// The name of the policy that a command names.
    var policyName = BlockRange()
    /// The trace header of the record; the result continues this trace. A held command continues the trace of the
    /// registration that released it, because Redis keeps no traces.
    var trace = BlockRange()
    /// The names of the fields that were dropped because the command's body was too large, separated by commas.
    var droppedFields = BlockRange()
    /// The command's id. If the command brought none, this is empty until the core makes one
    /// (`Delivery.writeDefaultIdentifierIfMissing`).
    var commandIdentifier = BlockRange()
    /// A reason of APNs, of Redis or of Causeway, or the code of an invalid record's fault (`RecordSlot.setReason`).
    var reason = BlockRange()
}

/// Where a text is in the record's block.
struct BlockRange: BitwiseCopyable {
    var offset: UInt32 = 0
    var count: UInt32 = 0
}
