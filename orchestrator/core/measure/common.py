"""Ordinary English words that also serve as tool names: in a Thought they are words first.

The list is our own: the everyday nouns and verbs that one-part tool names are taken from.
"""

from __future__ import annotations

from typing import Final

_TEXT: Final = """
abort accept access account act action activate activity adapt add address adjust admin advance advice agenda agent agree air alarm
alert align allocate allow alter amount analyse analysis analyze animal animate annotate announce answer apartment append apple
application apply appoint appointment approve archive area arrange arrival arrive art article ask assemble assert assess asset assign
assist assistant attach attachment attempt attend attribute auction audio audit author authorise authorize average award back backup badge
bag bake balance ball band bank bar barcode base basket batch battery beach bed begin benchmark benefit bet bid bike bill bind bird
birth bit blame blend block blog board boat body bond bonus book booking boost border borrow bottle box brake branch brand bread
break brief bring broadcast broker browse browser brush bucket budget bug build building bulk bundle burn bus business button buy
cabin cable cache cake calculate calculator calendar calibrate call camera camp campaign cancel candidate capital capture car card
care career cargo carry cart case cash cast catalog catalogue catch category cause cell census center centre certificate certify
chain chair challenge change channel chapter character charge chart chat cheap check checkout choice choose cinema circle cite city
claim class classify clean clear click client climate clinic clip clock clone close cloth cloud club cluster coach coast code coffee coin
cold collect collection college color colour column combine command comment commit compare comparison compile complain complete compose
compress compute computer concert condition conference configure confirm connect connection console construct consult consume
contact contain content contest context continue contract contrast control convert cook cool copy correct cost count counter country
coupon course court cover craft crash crawl create credit crew crop cross crowd cruise currency customer cut cycle dance dashboard
data database date day deadline deal debit debug decide deck declare decode decorate decrease deduct define degree delay delegate
delete deliver delivery demand department deploy deploys deposit describe description design desk destination detail details detect
develop device diagnose diagram dial diary dictionary diet diff digest dinner direct direction directory disable discard disconnect
discount discover discuss disk dismiss dispatch display distance distribute dive divide dock doctor document dog domain donate door
double download draft drag draw dream dress drink drive driver drop drug dry duplicate earn earthquake eat echo edge edit editor
education elect elevator email embed employ employee empty enable encode encrypt end energy engage engine enhance enrich enrol enroll
enter entry envelope environment equal erase error escalate estimate evaluate event evidence exam examine example exchange execute
exercise exit expand expense experiment expert explain explore export express extend extract eye fabric face fact factor factory
fail fair family fan farm fashion fault favorite fax feature fee feed feedback fetch field figure file fill film filter final finance
find fine finger finish fire fish fit fix flag flash fleet flight flip flood floor flow flower flush fly fold folder follow food
footfall force forecast forest forget fork form format forum forward frame freeze friend fruit fuel fund fuse gallery game garage
garden gas gate gather gauge generate get gift give glass glossary go goal gold grade grant graph greet grep grid group grow guard guess
guest guide hand handle hang harbor harbour hash head headline heal health heart heat heating height help hide highlight hike hire
history hold holiday home hook hospital host hotel hour house human humidity hunt ice icon identify identity image implement import
improve inbox include income increase index indicate info inform information insert inspect inspection install instruct insure
insurance integrate interest interpret interview introduce invent inventory invest invite invoice isolate issue item job join journal
journey judge jump keep key keyboard keyword kill kitchen knowledge label lake lamp land language laser latency laugh launch law layer
layout lead leader leak learn lease leave lecture ledger legal lend length lesson letter level library license lift light like limit line
link list listen load loan local locate location lock log login logo logout look lookup loop lottery luggage lunch machine magazine
mail maintain make manage manual map mark market mask master match material math maths matrix meal mean measure media medicine meet
meeting member memo memory mention menu merge message meter metric metrics migrate milk mine mix model modify money monitor month
mortgage motor mount mouse move movie multiply museum music mute name navigate navigation need neighbour network news newspaper night
nod node noise nominate normalise normalize note notes notice notify now number nurse object observe obtain occupy offer office oil
oncall open operate operation optimise optimize option oracle order organise organize orient origin outline outlook outage output
owner pack package page paint pair palette pan paper parcel park parking parse part partner party pass passenger passport password
paste patch path patient pattern pause pay payment payroll peak pen people percent perform permit person pet phone photo photograph
pick picture piece pilot pin ping pipe pipeline place plan plane planet planner plant plate play player playlist plot plug podcast
poem point police policy poll pollution pool population port portfolio position post postpone pour power practice praise predict
prefer prepare present preserve press pressure prevent preview price print printer prioritise prioritize priority prison probe
problem process produce product profile profit program programme project promise promote prompt proof protect protest prove provide
publish pull pump punch purchase purge push put python quality quantity quarantine query quest question queue quit quiz quota quote
race radar radio rail rain raise random range rank rate rating read reader reason rebase reboot rebuild recall receipt receive recipe
recognise recognize recommend reconcile record recover recruit redeem redirect reduce refer reference refine reflect refresh refund
refuse region register registry reject relate release reload remember remind reminder remote remove rename render renew rent repair
repeat replace replay reply report repository request research reserve reset reservation reside resize resolve resource respond
restart restaurant restore restrict result results resume retrieve retry return reverse revert review revise revoke reward rewrite
ride ring risk river road roadmap robot role roll rollback roof room root rotate round route router row rule rules run runbook salary
sale sales sample sand satellite save scale scan scatter scene schedule schema school score scrape scratch screen screenshot script
scroll sea seal search season seat secret secure security see seed seek segment select sell send sense sensor sentence sentiment
separate sequence series serve server service session set setting settings settle setup shape share shelf shell shift ship shipment
shipping shop shopping shot shout show shower shuffle shut sign signal silence simulate sing site situation size sketch skill skip
sleep slice slide slot slow smell smile snapshot snow soccer social sock soil solve song sort sound source space spawn speak speech
speed spell spend spin split sponsor sport spot spread sprint sql stack staff stage stamp stand standard star start state statement
station statistics stats status stay steal step stick stock stocktake stop storage store storm story stream street strength stress
stretch strike string structure student study style subject submit subscribe subtract suggest sum summarise summarize summary supplier
supply support survey suspend swap sweep swim switch symbol sync synchronise synchronize synthesise synthesize system table tag tail
take talk tank target task taste tax taxi teach team tell temperature template tenant term terminal terminate test text theatre theme
think thread throw ticket tide tile time timeline timer timetable timezone title toast toggle token tool top topic total touch tour
track trade traffic trail train transact transaction transcribe transcript transfer transform translate translation transport trash
travel tree trend trial tribute trigger trim trip truck trust try tune tunnel turn tutor tweet type unblock uncover undo unit
unlock unpack unsubscribe update upgrade upload usage use user vacation vaccine validate valley value van vault vehicle vendor
verify version video view village violate visa vision visit visualise visualize voice volume vote vouch voyage wage wait wake walk
wall wallet want ward warehouse warn warning warranty wash waste watch water wave wealth wear weather web website wedding week weigh
weight weld well wheel wheels whisper wiki wind window wine wipe wire wish withdraw word words work worker workflow workout workshop
world wrap write year zip zone zoom
"""
COMMON: Final = frozenset(_TEXT.split())


def is_common(name: str) -> bool:
    """Is this tool name one ordinary English word, which a Thought may hold without meaning the tool?"""
    return name.casefold() in COMMON
