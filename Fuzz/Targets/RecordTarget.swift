import Foundation

@testable import LiveActivity

/// Checks the decoder of commands. The input is a record. Rules:
/// - A fault has a message, and a place in the record.
/// - Foundation parses the body of an accepted command, and finds the parts of the body where `PushBody.Layout`
///   says.
/// - The command stays the same if its `aps` dictionary begins at another byte of the record, or comes from the cache
///   of the previous record.
/// - If the record is cut off inside its `aps` dictionary, the decoder refuses it.
func commandViolation(_ input: UnsafeRawBufferPointer) -> String? {
    withCopy(input) { record in
        do throws(Fault) {
            let command = try Command.decode(record)
            return bodyViolation(command, record) ?? cacheViolation(command, record)
                ?? truncationViolation(command, record)
        } catch {
            return faultViolation(error, record)
        }
    }
}

/// Checks the decoder of registrations. The input is a record. Rules: a fault has a message and a place in the record.
/// The texts of an accepted record are UTF-8.
func registrationViolation(_ input: UnsafeRawBufferPointer) -> String? {
    withCopy(input) { record in
        do throws(Fault) {
            let registration = try Registration.decode(record)
            let texts =
                switch registration.kind {
                case .activity(let activity): [registration.app, activity.activity, activity.token]
                case .pushToStart(let device): [registration.app, device.device, device.attributesType, device.token]
                }
            return texts.lazy.compactMap { textViolation($0, record) }.first
        } catch {
            return faultViolation(error, record)
        }
    }
}

private func faultViolation(_ fault: Fault, _ record: UnsafeRawBufferPointer) -> String? {
    if fault.message(in: record).isEmpty { return "a fault without a message" }
    return (0...record.count).contains(fault.offset) ? nil : "a fault at \(fault.offset) of \(record.count) bytes"
}

private func textViolation(_ text: TextRange, _ record: UnsafeRawBufferPointer) -> String? {
    if text.isAbsent { return nil }
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(text.range.count), alignment: 1)
    defer { target.deallocate() }
    let count = unescape(text, from: record, into: target)
    guard count <= target.count else { return "a text longer than its escaped form" }
    return String(validating: target[..<count], as: UTF8.self) == nil ? "a text that is not UTF-8" : nil
}

private func bodyViolation(_ command: Command, _ record: UnsafeRawBufferPointer) -> String? {
    let texts = [
        command.app, command.activity, command.device, command.identifier, command.token, command.policy,
        command.attributesType,
    ]
    if let violation = texts.lazy.compactMap({ textViolation($0, record) }).first { return violation }
    let body = UnsafeMutableRawBufferPointer.allocate(byteCount: command.bodyByteCount, alignment: 1)
    defer { body.deallocate() }
    let layout = PushBody.write(command, from: record, into: body)
    let parts = [
        (layout.aps, command.aps), (layout.timestampDigits, command.timestampDigits), (layout.alert, command.alert),
        (layout.payloadMembers, command.payloadMembers),
    ]
    for (inBody, inRecord) in parts {
        guard inBody.bytes(in: UnsafeRawBufferPointer(body)).elementsEqual(inRecord.bytes(in: record)) else {
            return "a part of the body does not lie where it is said to"
        }
    }
    return isAcceptedByFoundation(UnsafeRawBufferPointer(body)) ? nil : "Foundation does not accept the body as JSON"
}

/// Whether Foundation parses the body. JSON allows numbers that a Double cannot hold, but Foundation refuses them. So a
/// body with a number that has an exponent or 300 digits counts as parsed.
private func isAcceptedByFoundation(_ body: UnsafeRawBufferPointer) -> Bool {
    var digitCount = 0
    for byte in body {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digitCount += 1
        case UInt8(ascii: "e") where digitCount > 0, UInt8(ascii: "E") where digitCount > 0: return true
        default: digitCount = 0
        }
        if digitCount == 300 { return true }
    }
    return (try? JSONSerialization.jsonObject(with: Data(body))) != nil
}

/// Cuts a record off inside its `aps` dictionary. The decoder must refuse the shortened record. It must not take the
/// dictionary from its cache instead: the cache has the complete dictionary of the previous record.
private func truncationViolation(_ command: Command, _ record: UnsafeRawBufferPointer) -> String? {
    let end = Int(command.aps.offset) + Int(command.aps.count) - 1
    return withCopy(UnsafeRawBufferPointer(rebasing: record[..<end])) { truncatedRecord in
        var cache = ApsCache()
        do throws(Fault) {
            _ = try Command.decode(record, recalling: &cache)
            _ = try Command.decode(truncatedRecord, recalling: &cache)
            return "a record that ends inside its dictionary was accepted"
        } catch {
            return faultViolation(error, truncatedRecord)
        }
    }
}

private func cacheViolation(_ command: Command, _ record: UnsafeRawBufferPointer) -> String? {
    var cache = ApsCache()
    var movedRecord = Array(record)
    guard let brace = movedRecord.firstIndex(of: UInt8(ascii: "{")) else { return "a command that is no object" }
    movedRecord.insert(contentsOf: "  \n".utf8, at: brace + 1)
    return movedRecord.withUnsafeBytes { movedRecord in
        let decodedAlone = Result { () throws(Fault) in try Command.decode(movedRecord) }
        let decodedFromCache = Result { () throws(Fault) in
            _ = try Command.decode(record, recalling: &cache)
            return try Command.decode(movedRecord, recalling: &cache)
        }
        switch (decodedAlone, decodedFromCache) {
        case (.success(let decodedAlone), .success(let decodedFromCache)):
            guard String(describing: decodedAlone) == String(describing: decodedFromCache) else {
                return "\(decodedAlone), recalled \(decodedFromCache)"
            }
            return decodedAlone.aps.bytes(in: movedRecord).elementsEqual(command.aps.bytes(in: record))
                ? nil : "another dictionary"
        case (.failure(let fault), _) where fault.code == .recordTooLarge: return nil
        default: return "\(decodedAlone), recalled \(decodedFromCache)"
        }
    }
}
