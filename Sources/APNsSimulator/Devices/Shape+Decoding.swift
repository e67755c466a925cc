import Foundation

/// The result of decoding a value against a shape.
struct DecodingResult {
    /// Why `JSONDecoder` would throw; nil if it would not.
    var mismatch: Mismatch?
    /// How many dates are more than `Shape.suspiciousDateAheadSecondsMin` after now.
    var suspiciousDateCount = 0

    struct Mismatch: Equatable {
        /// The declared field or element, as an index of the shape's nodes; 0: the whole value.
        var nodeIndex: Int
        var problem: Problem
    }

    enum Problem: UInt8 {
        case missing, isNull, wrongType, wrongForm, numberDoesNotFit, notOneOfTheCases, notTwoDates, boundsOutOfOrder
    }
}

extension Shape {
    /// The time from which dates in JSON are counted: 2001-01-01 00:00:00 UTC, as UNIX seconds.
    static let referenceDateUnixSeconds: Int64 = 978_307_200
    /// 20 years in seconds. A date further in the future is probably a producer's mistake: UNIX seconds, read
    /// as seconds since 2001, are 31 years too late.
    static let suspiciousDateAheadSecondsMin = 20 * 365.25 * 86_400

    /// Decodes like Swift's `JSONDecoder` with default strategies for a synthesized `Codable` struct.
    ///
    /// Unknown keys are ignored. Only an optional field may be missing or null. An `Int` also takes a whole number that
    /// is written like `3.0` or `30e-1`.
    func decode(_ tape: borrowing JSONTape, at index: Int, nowMilliseconds: Int64) -> DecodingResult {
        var decoding = DecodingResult()
        let nowSeconds = Double(nowMilliseconds / 1_000 - Self.referenceDateUnixSeconds)
        nodes.withUnsafeBufferPointer { nodes in
            decode(nodes, 0, tape, at: index, nowSeconds: nowSeconds, into: &decoding)
        }
        return decoding
    }

    /// Describes a mismatch: the path of the field and the problem.
    func describe(_ mismatch: DecodingResult.Mismatch) -> String {
        var path: [String] = []
        var nodeIndex = mismatch.nodeIndex
        while nodeIndex != 0 {
            path.append(
                nodes[nodeIndex].nameIndex >= 0
                    ? String(decoding: names[nodes[nodeIndex].nameIndex], as: UTF8.self) : "[]"
            )
            guard let parent = nodes.indices.first(where: { isParent($0, of: nodeIndex) }) else { break }
            nodeIndex = parent
        }
        let location = path.isEmpty ? "the value itself" : path.reversed().joined(separator: ".")
        return "\(location): \(mismatch.problem)"
    }

    private func isParent(_ candidate: Int, of nodeIndex: Int) -> Bool {
        let kind = nodes[candidate].kind
        return (kind == .object || kind == .array || kind == .dictionary)
            && nodes[candidate].children.contains(nodeIndex)
    }

    /// Decodes one node of the shape and its children. The recursion follows the declared shape, so a payload cannot
    /// make the recursion deeper.
    private func decode(
        _ nodes: UnsafeBufferPointer<Node>,
        _ nodeIndex: Int,
        _ tape: borrowing JSONTape,
        at index: Int,
        nowSeconds: Double,
        into decoding: inout DecodingResult
    ) {
        func fail(_ problem: DecodingResult.Problem) {
            decoding.mismatch = DecodingResult.Mismatch(nodeIndex: nodeIndex, problem: problem)
        }
        let expected = nodes[nodeIndex]
        let kind = tape[index].kind
        if kind == .null {
            if !expected.isOptional { fail(.isNull) }
            return
        }
        switch expected.kind {
        case .string:
            if kind != .string { fail(.wrongType) }
        case .int, .unsigned, .float, .double:
            if kind != .number { fail(.wrongType) } else if !fits(tape, index, expected) { fail(.numberDoesNotFit) }
        case .any:
            break
        case .url, .data, .uuid:
            guard kind == .string else { return fail(.wrongType) }
            if !isWellFormed(tape.string(index), as: expected.kind) { fail(.wrongForm) }
        case .bool:
            if kind != .trueLiteral, kind != .falseLiteral { fail(.wrongType) }
        case .date:
            guard kind == .number else { return fail(.wrongType) }
            guard let seconds = tape.double(index) else { return fail(.numberDoesNotFit) }
            if seconds - nowSeconds > Self.suspiciousDateAheadSecondsMin { decoding.suspiciousDateCount += 1 }
        case .dateRange:
            decodeDateRange(tape, at: index, nodeIndex: nodeIndex, nowSeconds: nowSeconds, into: &decoding)
        case .enumeration:
            guard kind == .string else { return fail(.wrongType) }
            let isCase = names[expected.children]
                .contains { raw in
                    raw.withUnsafeBytes { tape.stringEquals(index, $0) }
                }
            if !isCase { fail(.notOneOfTheCases) }
        case .numberEnumeration:
            guard kind == .number else { return fail(.wrongType) }
            let isCase = tape.integer(index).map { names[expected.children].contains(Array("\($0)".utf8)) } ?? false
            if !isCase { fail(.notOneOfTheCases) }
        case .array:
            guard kind == .array else { return fail(.wrongType) }
            var element = index + 1
            while element < Int(tape[index].nextIndex), decoding.mismatch == nil {
                decode(nodes, expected.children.lowerBound, tape, at: element, nowSeconds: nowSeconds, into: &decoding)
                element = Int(tape[element].nextIndex)
            }
        case .dictionary:
            guard kind == .object else { return fail(.wrongType) }
            tape.forEachMember(of: index) { key, value in
                // If a key occurs twice, its first value counts.
                var name = tape.string(key)
                let firstValue = name.withUTF8 { tape.member(UnsafeRawBufferPointer($0), of: index) }
                guard decoding.mismatch == nil, firstValue == value else { return }
                decode(nodes, expected.children.lowerBound, tape, at: value, nowSeconds: nowSeconds, into: &decoding)
            }
        case .object:
            guard kind == .object else { return fail(.wrongType) }
            decodeFields(nodes, nodeIndex, tape, at: index, nowSeconds: nowSeconds, into: &decoding)
        }
    }

    private func fits(_ tape: borrowing JSONTape, _ index: Int, _ expected: Node) -> Bool {
        if expected.kind == .double { return tape.double(index) != nil }
        if expected.kind == .float {
            return tape.double(index).map { Float($0).isFinite && (Float($0) != 0 || $0 == 0) } == true
        }
        guard let number = tape.integer(index) else {
            // The number is no `Int64`. But if it is above `Int64.max`, a `UInt` or `UInt64` may take it.
            let text = String(decoding: tape.bytes(index), as: UTF8.self)
            let isPlain = text.allSatisfy(\.isNumber)
            let number = isPlain ? UInt64(text) : tape.double(index).flatMap { UInt64(exactly: $0) }
            return expected.kind == .unsigned && expected.integerBits == 64 && number != nil
        }
        let bits = expected.integerBits
        if expected.kind == .unsigned { return number >= 0 && (bits == 64 || number >> bits == 0) }
        return bits == 64 || (-(1 << (bits - 1))..<1 << (bits - 1)).contains(number)
    }

    /// Whether Foundation reads the string as a URL, a UUID or base64 data.
    private func isWellFormed(_ text: String, as kind: Kind) -> Bool {
        switch kind {
        case .url: URL(string: text) != nil
        case .uuid: UUID(uuidString: text) != nil
        default: Data(base64Encoded: text) != nil
        }
    }

    private func decodeFields(
        _ nodes: UnsafeBufferPointer<Node>,
        _ nodeIndex: Int,
        _ tape: borrowing JSONTape,
        at index: Int,
        nowSeconds: Double,
        into decoding: inout DecodingResult
    ) {
        for field in nodes[nodeIndex].children {
            let value = names[nodes[field].nameIndex].withUnsafeBytes { tape.member($0, of: index) }
            if let value {
                decode(nodes, field, tape, at: value, nowSeconds: nowSeconds, into: &decoding)
            } else if !nodes[field].isOptional {
                decoding.mismatch = DecodingResult.Mismatch(nodeIndex: field, problem: .missing)
            }
            if decoding.mismatch != nil { return }
        }
    }

    private func decodeDateRange(
        _ tape: borrowing JSONTape,
        at index: Int,
        nodeIndex: Int,
        nowSeconds: Double,
        into decoding: inout DecodingResult
    ) {
        func fail(_ problem: DecodingResult.Problem) {
            decoding.mismatch = DecodingResult.Mismatch(nodeIndex: nodeIndex, problem: problem)
        }
        guard tape[index].kind == .array else { return fail(.wrongType) }
        // `JSONDecoder` reads the range from the first two elements of the array, and ignores further ones.
        guard tape.childCount(index) >= 2 else { return fail(.notTwoDates) }
        let upperIndex = Int(tape[index + 1].nextIndex)
        guard let lower = tape.double(index + 1), let upper = tape.double(upperIndex) else { return fail(.notTwoDates) }
        guard lower <= upper else { return fail(.boundsOutOfOrder) }
        // The bounds are in order here, so the range has a suspicious date only if its upper bound is one.
        if upper - nowSeconds > Self.suspiciousDateAheadSecondsMin { decoding.suspiciousDateCount += 1 }
    }
}
